"""Beam search over a batch of rows, with finished hypotheses kept apart and an exact stopping rule.

In each step the most probable continuations of a row's live hypotheses are candidates; the best `2 * beam` are kept.
Those that end in EOS and rank among the first `beam` are finished and compete for the `nbest` slots of the row by

    normalised = score / length ** penalty          (length counts EOS)

and the best `beam` others stay live: a finished hypothesis never takes the slot of a live one. (At most `beam` of the
candidates can end in EOS, one for each live hypothesis, so `2 * beam` always suffice.) A log-probability is never
above 0, so a live hypothesis with score s can at best reach s / max_length ** penalty; once the row's last slot
is at least as good as that for its best live hypothesis, no later step can change the result and the row leaves the
batch. That bound is exact, but loose where max_length is far above the usual length. `stopping="count"` is the usual
shortcut: a row also stops once `beam` hypotheses have finished.

Ties go to the hypothesis that finished first, then to the better-ranked parent, then to the lower token id.
Reference: Graves, 2012, "Sequence Transduction with Recurrent Neural Networks"; Sutskever et al., 2014.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS
from harken.errors import UserError
from harken.search.contract import StepModel, device_of, limits
from harken.search.hypotheses import NEG_INF, ROOT, BestHypotheses, Hypothesis, Prefixes, continuations, ranked


@torch.no_grad()
def beam_search(
    model: StepModel,
    state: Any,
    rows: int,
    *,
    beam: int,
    nbest: int = 1,
    length_penalty: float = 1.0,
    max_lengths: int | Tensor,
    stopping: Literal["exact", "count"] = "exact",
    device: torch.device | str | None = None,
) -> list[list[Hypothesis]]:
    """Up to `nbest` distinct hypotheses for each of the `rows` rows of `state`, best first.

    A row with at least one finished hypothesis returns finished ones only; a row with none returns what was alive at
    its maximum length, marked `finished=False`.

    Args:
        beam: live hypotheses of a row.
        length_penalty: exponent of the length, 0 or more.
        max_lengths: the most tokens a row may have, EOS included: one number or (rows,).
        stopping: "exact" stops a row when its result cannot change; "count" also after `beam` finished hypotheses.
        device: where hypotheses are kept; by default where the model is.

    Raises:
        UserError: an impossible setting, or a model whose logits are not numbers.
    """
    _check(beam, nbest, length_penalty)
    if rows == 0:
        return []
    device = device_of(model, device, max_lengths)
    limit = limits(max_lengths, rows, device)  # (R,)
    alive = torch.arange(rows, device=device)  # (R,) which row of the result each row of the batch is
    tokens = torch.full((rows,), BOS, device=device)  # (R * K,), K live hypotheses a row: one at first
    scores = torch.zeros(rows, 1, device=device)  # (R, K), best first
    nodes = torch.full((rows, 1), ROOT, device=device)  # (R, K) where each live prefix ends
    kept = BestHypotheses.empty(rows, nbest, device)
    count = torch.zeros(rows, dtype=torch.long, device=device)  # (R,) hypotheses that have finished
    prefixes = Prefixes()
    results: list[tuple[Tensor, BestHypotheses]] = []
    length = 0
    while len(alive):
        length += 1
        live = scores.shape[1]
        logits, state, _ = model.step(tokens, state)
        values, ids = continuations(logits, 2 * beam)  # (R * K, C)
        choices = values.shape[1]
        candidates = scores.unsqueeze(-1) + values.view(len(alive), live, choices)  # (R, K, C)
        candidates, order = ranked(candidates.flatten(1))  # (R, K * C)
        candidates, order = candidates[:, : 2 * beam], order[:, : 2 * beam]  # (R, up to 2 * beam)
        parents = order // choices
        ids = ids.reshape(len(alive), live * choices).gather(1, order)
        ended = ids == EOS

        first = slice(0, beam)  # an EOS that ranks below the beam would not have survived either
        ended_scores = candidates[:, first].masked_fill(~ended[:, first], NEG_INF)
        kept = kept.merge(ended_scores, nodes.gather(1, parents[:, first]), length, length_penalty)
        count = count + (ended_scores > NEG_INF).sum(1)

        survivors = torch.sort(ended.to(torch.uint8), dim=1, stable=True).indices[:, :beam]  # first those without EOS
        scores = candidates.masked_fill(ended, NEG_INF).gather(1, survivors)  # (R, K)
        parents, ids = parents.gather(1, survivors), ids.gather(1, survivors)
        nodes = prefixes.extend(nodes.gather(1, parents), ids)

        reachable = scores[:, 0] / limit.to(scores.dtype) ** length_penalty
        done = (kept.normalised[:, -1] >= reachable) | (limit <= length)
        if stopping == "count":
            done |= count >= beam
        flat = parents + torch.arange(len(alive), device=device).unsqueeze(1) * live  # (R, K) rows of the state
        if bool(done.any()):  # synchronises with the device
            cut_off = BestHypotheses.unfinished(scores, nodes, length, length_penalty, nbest)
            results.append((alive[done], kept.rows(done).fill_from(cut_off.rows(done))))
            stay = ~done
            alive, limit, count, kept = alive[stay], limit[stay], count[stay], kept.rows(stay)
            scores, nodes, ids, flat = scores[stay], nodes[stay], ids[stay], flat[stay]
        tokens = ids.flatten()
        if len(alive):
            state = state.select(flat.flatten())
    return prefixes.hypotheses(results, rows)


def _check(beam: int, nbest: int, length_penalty: float) -> None:
    if beam < 1:
        raise UserError(f"search.beam is {beam}; it must be 1 or more.")
    if not 1 <= nbest <= beam:
        raise UserError(f"nbest is {nbest} with a beam of {beam}; choose nbest from 1 to the beam, or widen the beam.")
    if not 0 <= length_penalty < float("inf"):
        raise UserError(f"search.length_penalty is {length_penalty}; it must be 0 or more.")
