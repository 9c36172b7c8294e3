"""Greedy and beam search on tensors of fixed shapes and addresses: what `harken.search.graphs` captures as CUDA graphs.

`StaticSearch.run` computes some steps of all rows without reading anything from the device: the position, the finished
hypotheses and which rows are done are tensors. It is an ordinary function, so on a CPU it runs as it is. The results
are those of `harken.search.independent` (beam 1) and `harken.search.beam`. Rows that are done are computed, and nothing
of them is kept.

    tables        token, parent and log-probability of every live hypothesis at every step, read once at the end
    kept          the best finished hypotheses of each row, best first
    divisors      length ** penalty for every length, so that one captured step serves all length penalties
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.search.hypotheses import NEG_INF, NOT_IN_TEXT, ROOT, Hypothesis, ranked, refuse_empty

Choose = Callable[[Tensor, int], tuple[Tensor, Tensor]]  # logits (R, V), C -> log-probabilities and ids (R, C)


class StaticDecoder(Protocol):
    """The decoder step with a state of fixed shapes."""

    def step(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Tokens (R,) at position (1,) -> logits (R, V) of the next."""
        ...

    def reorder_(self, rows: Tensor) -> None:
        """Row r goes on with the hypothesis of row rows[r] (R,)."""
        ...


def choose_best(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best text tokens of each row of logits (R, V): log-probabilities and ids (R, C), best first.

    log p(v) = z_v - log sum_u exp(z_u); the table of all log-probabilities is not made.

    >>> values, ids = choose_best(torch.tensor([[9.0, 2.0, 9.0, 1.0]]).log(), 2)
    >>> ids.tolist(), [round(value, 3) for value in values.exp()[0].tolist()]
    ([[1, 3]], [0.095, 0.048])
    """
    total = torch.logsumexp(logits.float(), 1, keepdim=True)
    for token in NOT_IN_TEXT:
        logits[:, token] = NEG_INF
    best, ids = logits.topk(count, 1)
    return (best.float() - total).clamp(max=0.0), ids


class StaticSearch:
    """The buffers of a search of `rows` sources with `beam` hypotheses each and at most `length` tokens.

    `run` computes `steps` tokens at a time, which divides `length`. With `fused`, the kernels of
    `harken.kernels.decoding.cuda.selection` take the place of `_extend` and `_select`.
    """

    def __init__(self, rows: int, beam: int, length: int, device: torch.device, steps: int, fused: bool) -> None:
        self.beam, self.capacity, self.steps, self.fused = beam, length, steps, fused
        whole = {"dtype": torch.long, "device": device}
        self.lengths = torch.zeros(steps, **whole)  # type: ignore[call-overload]
        self.length = self.lengths[:1]  # (1,) tokens written before the current step
        self.tokens = torch.full((rows * beam,), BOS, **whole)  # type: ignore[call-overload]  # (R,) the last ones
        self.limit = torch.zeros(rows, **whole)  # type: ignore[call-overload]
        self.done = torch.ones(rows, dtype=torch.bool, device=device)
        self.live = torch.zeros(1, dtype=torch.int32, device=device)  # rows that are not done
        self.table = torch.full((length, 2, rows, beam), PAD, **whole)  # type: ignore[call-overload]
        self.logs = torch.zeros(length, rows, beam, device=device)
        if beam > 1:
            self.first = torch.arange(rows, device=device)[:, None] * beam  # (B, 1) first row of each source
            self.scores = torch.zeros(rows, beam, device=device)
            self.nodes = torch.full((rows, beam), ROOT, **whole)  # type: ignore[call-overload]
            self.count = torch.zeros(rows, **whole)  # type: ignore[call-overload]
            self.order = torch.zeros(rows * beam, **whole)  # type: ignore[call-overload]  # (R,) the parents' rows
            self.enough = torch.zeros(1, **whole)  # type: ignore[call-overload]  # finished ones that end a row
            self.last = torch.zeros(1, **whole)  # type: ignore[call-overload]  # nbest - 1
            self.divisors = torch.ones(length + 2, device=device)
            self.kept = torch.full((3, rows, beam), NEG_INF, device=device)  # ranks, scores, log p(EOS)
            self.kept_nodes = torch.full((rows, beam), ROOT, **whole)  # type: ignore[call-overload]
            self.cut = torch.zeros_like(self.done)  # rows without a finished hypothesis: cut off at the limit

    def reset(self, limits: Tensor, nbest: int, penalty: float, stop_at_count: bool) -> None:
        """Before the first step; limits (B',) of the rows that are used, the first ones."""
        torch.arange(self.steps, out=self.lengths)
        self.tokens.fill_(BOS)
        self.limit.zero_()
        self.limit[: len(limits)] = limits
        torch.le(self.limit, 0, out=self.done)
        if self.beam == 1:
            return
        self.scores.fill_(NEG_INF)[:, 0] = 0.0
        self.nodes.fill_(ROOT)
        self.count.zero_()
        self.enough.fill_(self.beam if stop_at_count else 1 << 60)
        self.last.fill_(nbest - 1)
        powers = [float(length) ** penalty for length in range(self.capacity + 2)]
        self.divisors.copy_(torch.tensor(powers, dtype=torch.float32))
        self.kept.fill_(NEG_INF)
        self.cut.zero_()

    def run(self, decoder: StaticDecoder, choose: Choose = choose_best) -> None:
        """`steps` tokens more."""
        extend: Callable[[Any, Tensor, Tensor], None] = StaticSearch._extend
        select: Callable[[Any, Tensor, Tensor], Tensor] = StaticSearch._select
        if self.fused:  # imports Triton
            from harken.kernels.decoding.cuda.selection import extend_greedy, select_beam

            extend, select = extend_greedy, select_beam
        for index in range(self.steps):
            self.length = self.lengths[index : index + 1]
            values, ids = choose(decoder.step(self.tokens, self.length), 1 if self.beam == 1 else 2 * self.beam)
            if self.beam == 1:
                extend(self, values, ids)
            else:
                decoder.reorder_(select(self, values, ids))
        self.lengths.add_(self.steps)
        torch.sum(self.done.logical_not(), 0, keepdim=True, dtype=torch.int32, out=self.live)

    def _extend(self, values: Tensor, ids: Tensor) -> None:
        """Greedy search: the best token of each row (B, 1)."""
        self.tokens.copy_(ids[:, 0].masked_fill(self.done, PAD))
        self.table[:, 0].index_copy_(0, self.length, self.tokens[None, :, None])
        self.logs.index_copy_(0, self.length, values[None])
        self.done.logical_or_((self.tokens == EOS) | (self.limit <= self.length + 1))

    def _select(self, values: Tensor, ids: Tensor) -> Tensor:
        """Beam search: of the best continuations (R, C) the survivors; returns their parents' rows (R,)."""
        (rows, beam), choices = self.scores.shape, values.shape[1]
        values, ids = values.view(rows, -1), ids.view(rows, -1)  # (B, K * C)
        offers = (self.scores[:, :, None] + values.view(rows, beam, choices)).flatten(1)
        offers, order = (part[:, : 2 * beam] for part in ranked(offers))
        parents, ids, logs = order // choices, ids.gather(1, order), values.gather(1, order)
        before = self.nodes.gather(1, parents)  # (B, 2K)
        length, ended = self.length + 1, ids == EOS
        divisor = self.divisors.index_select(0, length)

        few = slice(0, beam)  # an EOS that ranks below the beam would not have survived either
        closed = offers[:, few].masked_fill(~ended[:, few] | self.done[:, None], NEG_INF)
        new = torch.stack((closed / divisor, closed, logs[:, few]))
        both, nodes = torch.cat((self.kept, new), 2), torch.cat((self.kept_nodes, before[:, few]), 1)
        best = ranked(both[0])[1][:, few]
        self.kept.copy_(both.gather(2, best.expand(3, -1, -1)))
        self.kept_nodes.copy_(nodes.gather(1, best))
        self.count.add_((closed > NEG_INF).sum(1))

        left = torch.sort(ended.to(torch.uint8), dim=1, stable=True).indices[:, few]  # first those without EOS
        parents, ids, logs = parents.gather(1, left), ids.gather(1, left), logs.gather(1, left)
        self.scores.copy_(offers.masked_fill(ended, NEG_INF).gather(1, left))
        self.table.index_copy_(0, self.length, torch.stack((ids, before.gather(1, left)))[None])
        self.logs.index_copy_(0, self.length, logs[None])
        torch.add(
            torch.arange(rows * beam, device=ids.device).view(rows, beam), self.length * (rows * beam), out=self.nodes
        )
        self.tokens.copy_(ids.flatten())
        self._finish(length, divisor)
        return (parents + self.first).flatten()

    def _finish(self, length: Tensor, divisor: Tensor) -> None:
        """Which rows are done, and the live hypotheses of those that are cut off."""
        bound = self.scores[:, 0] / self.divisors.gather(0, self.limit)
        done = (self.limit <= length) | (self.count >= self.enough) | self.done
        done |= self.kept[0].index_select(1, self.last)[:, 0] >= bound
        cut = done & ~self.done & (self.kept[0, :, 0] == NEG_INF)
        live = torch.stack((self.scores / divisor, self.scores, torch.zeros_like(self.scores)))
        self.kept.copy_(torch.where(cut[:, None], live, self.kept))
        self.kept_nodes.copy_(torch.where(cut[:, None], self.nodes, self.kept_nodes))
        self.cut.logical_or_(cut)
        self.done.copy_(done)

    def hypotheses(self, rows: int, nbest: int, penalty: float) -> list[list[Hypothesis]]:
        """The results of the first `rows` rows, best first; reads everything from the device."""
        steps = min(int(self.lengths[0]), self.capacity)
        table, logs = self.table[:steps, :, :rows].cpu().numpy(), self.logs[:steps, :rows].cpu().numpy()
        if self.beam == 1:
            return _greedy(table[:, 0, :, 0].T, logs[:, :, 0].T, penalty)
        kept, nodes = self.kept[:, :rows, :nbest].cpu().numpy(), self.kept_nodes[:rows, :nbest].cpu().numpy()
        cut, width = self.cut[:rows].cpu().numpy(), self.table.shape[2] * self.beam
        slots = kept[0] > NEG_INF  # (B, nbest), False for NaN
        refuse_empty(np.flatnonzero(~slots.any(1)))
        owner = np.nonzero(slots)[0]
        tokens, parts, sizes = _trace(table, logs, nodes[slots], width)
        ranks, ends, found = kept[0][slots].tolist(), kept[2][slots].tolist(), [[] for _ in range(rows)]  # type: ignore[var-annotated]
        totals = parts.sum(1, dtype=np.float64) + np.where(cut[owner], 0.0, kept[2][slots])
        lists = zip(
            owner.tolist(), tokens.tolist(), parts.tolist(), sizes.tolist(), ranks, ends, totals.tolist(), strict=True
        )
        for row, words, logs_, size, rank, end, total in lists:
            finished = not cut[row]
            scores = logs_[len(logs_) - size :] + ([end] if finished else [])
            found[row].append(Hypothesis(words[len(words) - size :], total, rank, finished, scores))
        return found


def _greedy(tokens: np.ndarray, logs: np.ndarray, penalty: float) -> list[list[Hypothesis]]:
    """Tokens and log-probabilities (B, T), PAD after the end of a row."""
    sizes = (tokens != PAD).sum(1)
    logs = np.where(tokens != PAD, logs, 0.0)
    totals = logs.sum(1, dtype=np.float64)
    refuse_empty(np.flatnonzero(~(totals > NEG_INF)))
    ended = tokens[np.arange(len(tokens)), sizes - 1] == EOS
    ranks = totals / sizes.astype(np.float64) ** penalty
    lists = zip(
        tokens.tolist(), logs.tolist(), sizes.tolist(), ended.tolist(), totals.tolist(), ranks.tolist(), strict=True
    )
    return [
        [Hypothesis(words[: size - end], total, rank, end, parts[:size])]
        for words, parts, size, end, total, rank in lists
    ]


def _trace(
    table: np.ndarray, logs: np.ndarray, ends: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The prefixes that end at nodes (H,): tokens and log-probabilities (H, T), right-aligned, and their lengths (H,).

    Node t * width + r is hypothesis r of step t; the table (T, 2, B, K) has its token and its parent.
    """
    steps, beam = len(table), table.shape[3]
    tokens, parts = np.full((len(ends), steps), PAD), np.zeros((len(ends), steps))
    sizes, node = np.zeros(len(ends), np.int64), ends
    for column in range(steps - 1, -1, -1):
        there = node != ROOT
        if not there.any():
            break
        time, row = np.divmod(np.where(there, node, 0), width)
        source, slot = np.divmod(row, beam)
        tokens[:, column] = np.where(there, table[time, 0, source, slot], PAD)
        parts[:, column] = np.where(there, logs[time, source, slot], 0.0)
        node = np.where(there, table[time, 1, source, slot], ROOT)
        sizes += there
    return tokens, parts, sizes
