"""The selection after a step in plain operators: what `harken.kernels.decoding.cuda.selection` computes in kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import EOS, PAD
from harken.search.dispatch import DecodingCall
from harken.search.graphs import GraphSearch, describe, shape_of
from harken.search.hypotheses import NEG_INF, Hypothesis, ranked


def choose(logits: Tensor, count: int, special: Any) -> tuple[Tensor, Tensor]:
    """The `count` best text tokens of each row of logits (R, V): log-probabilities and ids (R, C), best first.

    log p(v) = z_v - log sum_u exp(z_u); the table of all log-probabilities is not made.

    """
    total = torch.logsumexp(logits.float(), 1, keepdim=True)
    for token in special[:2]:
        logits[:, token] = NEG_INF
    best, ids = logits.topk(count, 1)
    return (best.float() - total).clamp(max=0.0), ids


def extend(search: Any, values: Tensor, raws: Tensor, ids: Tensor) -> None:
    """Greedy search: append the best token of each row (B, 1)."""
    search.scores.add_(values.masked_fill(search.done[:, None], 0.0))
    search.tokens.copy_(ids[:, 0].masked_fill(search.done, PAD))
    search.table[:, 0].index_copy_(0, search.length, search.tokens[None, :, None])
    search.logs.index_copy_(0, search.length, raws[None])
    search.done.logical_or_((search.tokens == EOS) | (search.limit <= search.length + 1))


def select_beam(search: Any, values: Tensor, raws: Tensor, ids: Tensor, *given: None) -> Tensor:
    """Beam search: of the best continuations (R, C) the survivors; returns their parents' rows (R,)."""
    (rows, beam), choices = search.scores.shape, values.shape[1]
    values, ids = values.view(rows, -1), ids.view(rows, -1)  # (B, K * C)
    offers = (search.scores[:, :, None] + values.view(rows, beam, choices)).flatten(1)
    offers, order = (part[:, : 2 * beam] for part in ranked(offers))
    parents, ids, logs = order // choices, ids.gather(1, order), values.gather(1, order)
    before = search.nodes.gather(1, parents)  # (B, 2K)
    length, ended = search.length + 1, ids == EOS
    divisor = search.divisors.index_select(0, length)

    few = slice(0, beam)  # an EOS that ranks below the beam would not have survived either
    closed = offers[:, few].masked_fill(~ended[:, few] | search.done[:, None], NEG_INF)
    new = torch.stack((closed / divisor, closed, logs[:, few], torch.zeros_like(closed)))
    both, nodes = torch.cat((search.finished, new), 2), torch.cat((search.finished_nodes, before[:, few]), 1)
    best = ranked(both[0])[1][:, few]
    search.finished.copy_(both.gather(2, best.expand(4, -1, -1)))
    search.finished_nodes.copy_(nodes.gather(1, best))
    search.count.add_((closed > NEG_INF).sum(1))

    left = torch.sort(ended.to(torch.uint8), dim=1, stable=True).indices[:, few]  # first those without EOS
    parents, ids, logs = parents.gather(1, left), ids.gather(1, left), logs.gather(1, left)
    search.scores.copy_(offers.masked_fill(ended, NEG_INF).gather(1, left))
    search.table.index_copy_(0, search.length, torch.stack((ids, before.gather(1, left)))[None])
    search.logs.index_copy_(0, search.length, logs[None])
    torch.add(
        torch.arange(rows * beam, device=ids.device).view(rows, beam), search.length * (rows * beam), out=search.nodes
    )
    search.tokens.copy_(ids.flatten())
    _finish(search, length, divisor)
    first = torch.arange(rows, device=ids.device)[:, None] * beam
    search.order.copy_((parents + first).flatten())
    order: Tensor = search.order
    return order


def _finish(search: Any, length: Tensor, divisor: Tensor) -> None:
    """Which rows are done, and the live hypotheses of those that are cut off."""
    bound = search.scores[:, 0] / search.divisors.gather(0, search.limit)
    done = (search.limit <= length) | (search.count >= search.max_finished) | search.done
    done |= search.finished[0].index_select(1, search.worst_kept)[:, 0] >= bound
    cut = done & ~search.done & (search.finished[0, :, 0] == NEG_INF)
    none = torch.zeros_like(search.scores)
    live = torch.stack((search.scores / divisor, search.scores, none, none))
    search.finished.copy_(torch.where(cut[:, None], live, search.finished))
    search.finished_nodes.copy_(torch.where(cut[:, None], search.nodes, search.finished_nodes))
    search.cut.logical_or_(cut)
    search.done.copy_(done)


@torch.inference_mode()
def run_uncaptured(call: DecodingCall) -> list[list[Hypothesis]]:
    """The search that is captured on a GPU, on any device and in the dtype of the model."""
    return uncaptured(call).run([call.model], call)


def uncaptured(call: DecodingCall) -> GraphSearch:
    """The same before it runs."""
    import sys

    sizes = shape_of(call), call.source.device
    return GraphSearch([call.model], [describe(call.model)], *sizes, selection=sys.modules[__name__])
