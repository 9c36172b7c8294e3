"""Hypotheses: the candidates for their next tokens, and the bookkeeping of beam search.

Prefixes are a tree of tokens. Every step adds one node for each live hypothesis, with its token and its parent node.
Nothing is copied when hypotheses are reordered; tokens are read once, at the end, from the last node back to the root.

           the ── black ── cat            nodes   0 the  1 a  2 black  3 cat
    root <                                parent  -1     -1   0        2
           a

>>> continuations(torch.tensor([[-1.0, -3.0, -1.0, -2.0]]), 3)[1]    # of equals the lower id comes first
tensor([[0, 2, 3]])
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from harken.data.tokenizers.tokens import BOS, EOS, PAD
from harken.errors import UserError
from harken.kernels.decoding.description import SpecialTokens
from harken.lazy_torch import torch
from harken.search.ranking import Ranking

if TYPE_CHECKING:
    from torch import Tensor

NEG_INF = float("-inf")  # the score of excluded candidates and empty slots
NOT_IN_TEXT = (PAD, BOS)
SPECIAL_TOKENS = SpecialTokens(PAD, BOS, EOS)  # for kernels


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]  # without BOS, without EOS
    score: float  # sum of the model's log-probabilities, that of EOS included if finished
    normalised: float  # the score used for ranking
    finished: bool  # ended by EOS, not cut off at the maximum length
    token_scores: list[float] = field(default_factory=list)  # log-probability of each token, then of EOS if finished
    added: float = 0.0  # what score rules added to `score`
    coverage: float = 0.0  # what the coverage penalty added to `normalised`


def ranked(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Sort the last axis, best first, stably. Returns values and indices."""
    return torch.sort(scores, dim=-1, descending=True, stable=True)


def continuations(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best of each row of (R, V): values and ids, both (R, C), best first, of equals the lower id first.

    `topk` may choose and order equals in any way, so they are detected: equals among the best are put in order, and a
    row in which the last of them equals one that was left out is sorted as a whole. On a GPU the test would
    synchronise, so `topk` is used, which is deterministic there.
    """
    if count >= scores.shape[-1]:
        return ranked(scores)
    if scores.device.type != "cpu":
        return scores.topk(count)
    best, ids = scores.topk(count + 1)
    equal = (best[:, 1:] == best[:, :-1]) & (best[:, 1:] > NEG_INF)
    if bool(equal.any()):
        cut = equal[:, -1].nonzero()[:, 0]
        ids, order = ids.sort(-1)
        best, order = ranked(best.gather(1, order))
        ids = ids.gather(1, order)
        if len(cut):
            whole, order = ranked(scores[cut])
            best[cut], ids[cut] = whole[:, : count + 1], order[:, : count + 1]
    return best[:, :count], ids[:, :count]


ROOT = -1


@dataclass
class BestHypotheses:
    """The best hypotheses of each row so far, best first; every field is (R, nbest)."""

    normalised: Tensor  # NEG_INF where a slot is empty
    scores: Tensor  # what rules and the search rank by, without the length
    end_scores: Tensor  # log-probability of EOS; 0 where there is none
    coverage: Tensor
    nodes: Tensor  # where the prefix ends
    finished: Tensor  # bool

    @classmethod
    def empty(cls, rows: int, nbest: int, device: torch.device) -> BestHypotheses:
        """All slots empty."""
        free = torch.full((rows, nbest), NEG_INF, device=device)
        nodes = torch.full((rows, nbest), ROOT, device=device)
        none = torch.zeros(rows, nbest, device=device)
        return cls(free, free, none, none, nodes, torch.zeros(rows, nbest, dtype=torch.bool, device=device))

    def merge(self, new: BestHypotheses) -> BestHypotheses:
        """The best of both; of equals those that are here come first."""
        slots = self.normalised.shape[1]
        _, order = ranked(torch.cat([self.normalised, new.normalised], 1))
        best = order[:, :slots]
        pairs = zip(self._all(), new._all(), strict=True)
        return BestHypotheses(*(torch.cat([old, now], 1).gather(1, best) for old, now in pairs))

    def rows(self, chosen: Tensor) -> BestHypotheses:
        """Only some rows."""
        return BestHypotheses(*(part[chosen] for part in self._all()))

    def select(self, order: Tensor) -> BestHypotheses:
        """Other slots (R, n) of each row."""
        return BestHypotheses(*(part.gather(1, order) for part in self._all()))

    def fill_from(self, other: BestHypotheses) -> BestHypotheses:
        """Take rows without any hypothesis from `other`."""
        has = self.normalised[:, :1] > NEG_INF
        return BestHypotheses(
            *(torch.where(has, own, others) for own, others in zip(self._all(), other._all(), strict=True))
        )

    def _all(self) -> list[Tensor]:
        return [getattr(self, part.name) for part in fields(self)]


def candidates(
    ranking: Ranking, scores: Tensor, ends: Tensor | None, nodes: Tensor, length: int, coverage: Tensor | None
) -> BestHypotheses:
    """Hypotheses (R, C) of one length, finished by EOS with log-probabilities `ends`, or cut off (None)."""
    ranks = ranking(scores, length, coverage)
    none = torch.zeros_like(scores)
    finished = torch.full_like(nodes, ends is not None, dtype=torch.bool)
    return BestHypotheses(
        ranks, scores, none if ends is None else ends, none if coverage is None else coverage, nodes, finished
    )


class Prefixes:
    """The tree of all prefixes that were ever live."""

    def __init__(self, *table: Tensor) -> None:
        """An empty tree, or one of the parents, tokens and log-probabilities (nodes,) of all nodes."""
        self._parents, self._tokens, self._scores = ([part] for part in table) if table else ([], [], [])
        self._size = len(table[0]) if table else 0

    def extend(self, parents: Tensor, tokens: Tensor, scores: Tensor) -> Tensor:
        """Add a node for each of `tokens` (R, K) after the nodes `parents` (R, K); returns the new nodes (R, K).

        Scores (R, K) are the model's log-probabilities of the tokens.
        """
        nodes = torch.arange(self._size, self._size + tokens.numel(), device=tokens.device).view(tokens.shape)
        self._tokens.append(tokens.flatten())
        self._parents.append(parents.flatten())
        self._scores.append(scores.flatten())
        self._size += tokens.numel()
        return nodes

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens, parents and log-probabilities of all nodes, each (nodes,)."""
        if not self._tokens:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        tokens, parents, scores = (
            torch.cat(parts).cpu().numpy() for parts in (self._tokens, self._parents, self._scores)
        )
        return tokens, parents, scores

    def trace(self, ends: np.ndarray) -> tuple[list[list[int]], list[list[float]]]:
        """The tokens of the prefixes that end at `ends` (H,), first token first, and their log-probabilities."""
        tokens, parents, scores = self.table()
        columns, values = [], []
        while (ends != ROOT).any():
            there = ends != ROOT
            columns.append(np.where(there, tokens[ends], PAD))  # PAD is never generated, so it marks no token
            values.append(np.where(there, scores[ends], 0.0))
            ends = np.where(there, parents[ends], ROOT)
        if not columns:
            return [[] for _ in ends], [[] for _ in ends]
        backwards = np.stack(columns, 1)  # (H, longest)
        sizes, logs = (backwards != PAD).sum(1).tolist(), np.stack(values, 1).tolist()
        return (
            [row[:size][::-1] for row, size in zip(backwards.tolist(), sizes, strict=True)],
            [row[:size][::-1] for row, size in zip(logs, sizes, strict=True)],
        )

    def hypotheses(self, results: list[tuple[Tensor, BestHypotheses]], rows: int) -> list[list[Hypothesis]]:
        """The best hypotheses of each row, in the order of the rows."""
        row_of = torch.cat([numbers for numbers, _ in results]).cpu().numpy()  # (R,)
        normalised, scores, ends, coverage, nodes, finished = (
            torch.cat(parts).cpu().numpy() for parts in zip(*(best._all() for _, best in results), strict=True)
        )
        slots = normalised > NEG_INF  # (R, nbest), False for NaN
        refuse_empty(row_of[~slots.any(1)])
        owners = row_of[np.nonzero(slots)[0]].tolist()  # row by row, best first: the order of the following
        values = (part[slots].tolist() for part in (finished, ends, normalised, scores, coverage))
        hypotheses: list[list[Hypothesis]] = [[] for _ in range(rows)]
        rows_of_values = zip(owners, *self.trace(nodes[slots]), *values, strict=True)
        for owner, tokens, token_scores, ended, end, rank, score, cover in rows_of_values:
            token_scores += [end] if ended else []
            total = float(sum(token_scores))
            added = added_by_rules(score, total)
            hypotheses[owner].append(Hypothesis(tokens, total, rank, ended, token_scores, added, cover))
        return hypotheses


ROUNDING = 1e-4  # of sums of log-probabilities, relative


def added_by_rules(score: float, total: float) -> float:
    """The part of a score that is not the model's; 0 where they differ by rounding alone."""
    added = score - total
    return added if abs(added) > ROUNDING * (1 + abs(total)) else 0.0


def refuse_empty(rows: np.ndarray) -> None:
    """Refuse rows (R,) that no hypothesis was found for.

    Raises:
        UserError: there are any.
    """
    if len(rows):
        raise UserError(
            f"The model's logits for row {int(rows[0])} are not finite numbers, or the options of the search leave no "
            "output: train the model again if its training has diverged, or relax the options."
        )
