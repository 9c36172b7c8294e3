"""Rules about the tokens so far: length, repetition, unknown words, what must not be written.

>>> so_far = SoFar(torch.tensor([[4, 5, 4]]), torch.tensor([0]), torch.tensor([9]))
>>> scores = torch.full((1, 7), -1.0)
>>> NoRepeatNgram(2)(scores.clone(), so_far)[0].tolist()  # after 4 came 5 before; 0 is padding
[-inf, -1.0, -1.0, -1.0, -1.0, -inf, -1.0]
>>> RepetitionPenalty(1.5)(scores.clone(), so_far)[0].tolist()
[-1.0, -1.0, -1.0, -1.0, -1.5, -1.5, -1.0]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harken.data.tokenizers.tokens import EOS, PAD, UNK
from harken.lazy_torch import torch
from harken.search.hypotheses import NEG_INF
from harken.search.rules.base import ScoreRule, SoFar, exclude_

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class MinimumLength(ScoreRule):
    """No EOS before `length` tokens."""

    length: int

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        return exclude_(scores, [EOS]) if so_far.length < self.length else scores


@dataclass
class NoRepeatNgram(ScoreRule):
    """No n-gram of `size` tokens twice (Paulus et al., 2018)."""

    size: int

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        tokens = so_far.tokens
        if so_far.length < self.size:
            return scores
        grams = tokens.unfold(1, self.size, 1)  # (R, t - n + 1, n)
        recent = tokens[:, so_far.length - self.size + 1 :]  # (R, n - 1)
        again = (grams[..., :-1] == recent[:, None]).all(-1)
        return scores.scatter(1, torch.where(again, grams[..., -1], PAD), NEG_INF)  # PAD is excluded anyway


@dataclass
class RepetitionPenalty(ScoreRule):
    """Log-probabilities of tokens that were written before are multiplied by `penalty` (Keskar et al., 2019)."""

    penalty: float

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        if not so_far.length:
            return scores
        return scores.scatter(1, so_far.tokens, scores.gather(1, so_far.tokens) * self.penalty)


@dataclass
class UnknownPenalty(ScoreRule):
    """`penalty` is subtracted from the score of the unknown word; infinity excludes it."""

    penalty: float

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        scores[:, UNK] -= self.penalty
        return scores


class Banned(ScoreRule):
    """Token sequences that must not be written; one of a single token excludes it everywhere."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        by_length: dict[int, list[Sequence[int]]] = defaultdict(list)
        for sequence in sequences:
            by_length[len(sequence)].append(sequence)
        self.single = [sequence[0] for sequence in by_length.pop(1, [])]
        self.longer = {length: np.array(rows) for length, rows in by_length.items() if length}  # (M, length)

    def sequences(self) -> list[list[int]]:
        """All of them."""
        return [[token] for token in self.single] + [row for rows in self.longer.values() for row in rows.tolist()]

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        scores = exclude_(scores, self.single)
        for length, rows in self.longer.items():
            if so_far.length >= length - 1:
                sequences = torch.as_tensor(rows, device=scores.device)
                recent = so_far.tokens[:, so_far.length - length + 1 :]  # (R, length - 1)
                begun = (recent[:, None] == sequences[:, :-1]).all(-1)  # (R, M)
                scores = scores.scatter(1, torch.where(begun, sequences[:, -1], PAD), NEG_INF)
        return scores


@dataclass
class Shortlist(ScoreRule):
    """Only tokens that are allowed: (V,) for all sources, or (B, V) for each; EOS always is.

    The distribution is that of the allowed tokens alone, log p(v) = z_v - log sum over allowed u of exp(z_u), so that
    an implementation need not compute the other logits.

    >>> rule = Shortlist(torch.tensor([False, False, False, False, True, False]))
    >>> so_far = SoFar(torch.empty(1, 0), torch.tensor([0]), torch.tensor([9]))
    >>> rule.restrict(torch.zeros(1, 6), so_far).softmax(1)[0].tolist()
    [0.0, 0.0, 0.0, 0.5, 0.5, 0.0]
    """

    allowed: Tensor | np.ndarray

    def __post_init__(self) -> None:
        self.allowed = np.asarray(self.allowed).copy()
        self.allowed[..., EOS] = True

    def restrict(self, logits: Tensor, so_far: SoFar) -> Tensor:
        allowed = torch.as_tensor(self.allowed, device=logits.device)
        allowed = allowed if allowed.dim() == 1 else allowed[so_far.source]
        return logits.masked_fill(~allowed, NEG_INF)
