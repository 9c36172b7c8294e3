"""Hypotheses: their scores, the candidates for their next tokens, and the bookkeeping of beam search.

    normalised = score / length ** penalty,     length counts the end of sentence

(Wu et al., 2016, "Google's Neural Machine Translation System", without its constant 5.) A penalty of 0 ranks by
log-probability, which favours short outputs; 1 ranks by the mean log-probability of a token.

Prefixes are a tree of tokens. Every step adds one node for each live hypothesis, with its token and its parent node.
Nothing is copied when hypotheses are reordered; tokens are read once, at the end, from the last node back to the root.

           the ── black ── cat            nodes   0 the  1 a  2 black  3 cat
    root <                                parent  -1     -1   0        2
           a

>>> normalise(-6.0, length=3, penalty=1.0)
-2.0
>>> continuations(torch.tensor([[9.0, 0.0, 9.0, 1.0, 0.0]]), 2)[1]    # ids 0 (PAD) and 2 (BOS) are excluded
tensor([[3, 1]])
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from harken.data.tokenizers.tokens import BOS, PAD
from harken.errors import UserError


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]  # without BOS, without EOS
    score: float  # sum of log-probabilities, that of EOS included if finished
    normalised: float  # the score used for ranking
    finished: bool  # ended by EOS, not cut off at the maximum length


def normalise(score: float, length: int, penalty: float) -> float:
    """The score used for ranking; `length` counts EOS."""
    return float(score / float(length) ** penalty)


NEG_INF = float("-inf")  # the score of excluded candidates and empty slots


def ranked(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the last axis, best first, stably. Returns values and indices."""
    return torch.sort(scores, dim=-1, descending=True, stable=True)


def continuations(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities and ids, both (B, C), best first; C is `count` or what the vocabulary has.

    Args:
        logits: (B, V), of any float type; the sum is taken in float32 or better.
        count: number of next tokens per hypothesis.
    """
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    log_probabilities = logits.log_softmax(-1)
    needed = min(count + 2, logits.shape[-1])  # two more: PAD and BOS may be among them
    values, ids = _largest(log_probabilities, needed)
    ids, order = ids.sort(-1)  # of equal log-probabilities the lower id comes first
    values = values.gather(-1, order).clamp(max=0.0)  # rounding must not raise a score as a hypothesis grows
    values = values.masked_fill((ids == PAD) | (ids == BOS), NEG_INF)
    values, order = ranked(values)
    return values[:, :count], ids.gather(-1, order)[:, :count]  # (B, C)


def _largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`topk`, and of values equal to the last one chosen those with the lowest ids.

    `topk` may choose any of them. Ties at the boundary are rare in a trained model, so they are detected, and only then
    everything is sorted; on a GPU the test would synchronise, so `topk` is used, which is deterministic there.
    """
    if count == values.shape[-1] or values.device.type != "cpu":
        return values.topk(count)
    best, ids = values.topk(count + 1)
    if bool(((best[:, -1] == best[:, -2]) & (best[:, -1] > NEG_INF)).any()):
        best, ids = ranked(values)
    return best[:, :count], ids[:, :count]


ROOT = -1


@dataclass
class BestHypotheses:
    """The best hypotheses of each row so far, best first; every field is (R, nbest)."""

    normalised: Tensor  # NEG_INF where a slot is empty
    scores: Tensor
    nodes: Tensor  # where the prefix ends
    finished: Tensor  # bool

    @classmethod
    def empty(cls, rows: int, nbest: int, device: torch.device) -> BestHypotheses:
        """All slots empty."""
        free = torch.full((rows, nbest), NEG_INF, device=device)
        nodes = torch.full((rows, nbest), ROOT, device=device)
        return cls(free, free, nodes, torch.zeros(rows, nbest, dtype=torch.bool, device=device))

    @classmethod
    def unfinished(cls, scores: Tensor, nodes: Tensor, length: int, penalty: float, nbest: int) -> BestHypotheses:
        """The live hypotheses (R, K), best first, as they are at the maximum length."""
        empty = cls.empty(len(scores), nbest, scores.device)
        return empty._with(scores, nodes, length, penalty, finished=False)

    def merge(self, scores: Tensor, nodes: Tensor, length: int, penalty: float) -> BestHypotheses:
        """Insert the hypotheses that finish now, (R, C); those with a score of NEG_INF do not."""
        return self._with(scores, nodes, length, penalty, finished=True)

    def _with(self, scores: Tensor, nodes: Tensor, length: int, penalty: float, finished: bool) -> BestHypotheses:
        slots = self.normalised.shape[1]
        new = BestHypotheses(
            scores / float(length) ** penalty, scores, nodes, torch.full_like(nodes, finished, dtype=torch.bool)
        )
        _, order = ranked(torch.cat([self.normalised, new.normalised], 1))
        best = order[:, :slots]
        pairs = zip(self._all(), new._all(), strict=True)
        return BestHypotheses(*(torch.cat([old, now], 1).gather(1, best) for old, now in pairs))

    def rows(self, chosen: Tensor) -> BestHypotheses:
        """Only some rows."""
        return BestHypotheses(*(field[chosen] for field in self._all()))

    def fill_from(self, other: BestHypotheses) -> BestHypotheses:
        """Take rows without any hypothesis from `other`."""
        has = self.normalised[:, :1] > NEG_INF
        return BestHypotheses(
            *(torch.where(has, mine, theirs) for mine, theirs in zip(self._all(), other._all(), strict=True))
        )

    def _all(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


class Prefixes:
    """The tree of all prefixes that were ever live."""

    def __init__(self) -> None:
        self._tokens: list[Tensor] = []
        self._parents: list[Tensor] = []
        self._size = 0

    def extend(self, parents: Tensor, tokens: Tensor) -> Tensor:
        """Add one node for each of `tokens` (R, K) after the nodes `parents` (R, K); returns the new nodes (R, K)."""
        nodes = torch.arange(self._size, self._size + tokens.numel(), device=tokens.device).view(tokens.shape)
        self._tokens.append(tokens.flatten())
        self._parents.append(parents.flatten())
        self._size += tokens.numel()
        return nodes

    def trace(self, ends: np.ndarray) -> list[list[int]]:
        """The tokens of the prefixes that end at `ends` (H,), first token first."""
        tokens = torch.cat(self._tokens).cpu().numpy()
        parents = torch.cat(self._parents).cpu().numpy()
        columns = []
        while (ends != ROOT).any():
            columns.append(np.where(ends == ROOT, PAD, tokens[ends]))  # PAD is never generated, so it marks no token
            ends = np.where(ends == ROOT, ROOT, parents[ends])
        if not columns:
            return [[] for _ in ends]
        backwards = np.stack(columns, 1)  # (H, longest)
        return [row[row != PAD][::-1].tolist() for row in backwards]

    def hypotheses(self, results: list[tuple[Tensor, BestHypotheses]], rows: int) -> list[list[Hypothesis]]:
        """The best hypotheses of each row, in the order of the rows."""
        row_of = torch.cat([numbers for numbers, _ in results]).cpu().numpy()  # (R,)
        normalised, scores, nodes, finished = (
            torch.cat(parts).cpu().numpy() for parts in zip(*(kept._all() for _, kept in results), strict=True)
        )
        slots = normalised > NEG_INF  # (R, nbest), False for NaN
        empty = ~slots.any(1)
        if empty.any():
            row = int(row_of[empty][0])
            raise UserError(f"The model's logits for row {row} are not finite numbers; its training has diverged.")
        texts = iter(self.trace(nodes[slots]))
        found: list[list[Hypothesis]] = [[] for _ in range(rows)]
        for index, slot in np.argwhere(slots):  # row by row, best first: the order of `texts`
            score, rank = float(scores[index, slot]), float(normalised[index, slot])
            found[row_of[index]].append(Hypothesis(next(texts), score, rank, bool(finished[index, slot])))
        return found
