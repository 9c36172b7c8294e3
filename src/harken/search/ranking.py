"""The final score of a hypothesis: what n-best lists are sorted by.

    rank = score / penalty(length) + reward * length + coverage(x, y)

    power     penalty(n) = n ** a                                        a = 1: the mean log-probability of a token
    gnmt      penalty(n) = ((5 + n) / 6) ** a                            Wu et al. (2016), equation 14
    coverage  b * sum over source positions j of log min(1, sum_t a_tj)  the same, from attention weights a_tj

`length` counts EOS. A length penalty of 0 ranks by log-probability, which favours short outputs. `word_reward` is added
for every token (a negative one is a penalty). The score that is divided is the sum of log-probabilities and of what the
score rules added (`harken.search.rules`).

>>> Ranking(1.0)(torch.tensor(-6.0), 3).item()
-2.0
>>> Ranking(1.0, word_reward=0.5)(torch.tensor(-6.0), 3).item()
-0.5
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from harken.errors import UserError
from harken.lazy_torch import torch
from harken.search.config import SearchOptions

if TYPE_CHECKING:
    from torch import Tensor

LEAST_COVERAGE = 1e-6  # log of a source word that nothing attended to


@dataclass(frozen=True)
class Ranking:
    """The rank of a hypothesis by its score, length and coverage, as the module's docstring defines it."""

    length_penalty: float = 1.0
    kind: Literal["power", "gnmt"] = "power"
    word_reward: float = 0.0
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.length_penalty < float("inf"):
            raise UserError(f"search.length_penalty is {self.length_penalty}; it must be 0 or more.")

    def divisor(self, length: int | Tensor) -> float | Tensor:
        """penalty(n)."""
        base = length if self.kind == "power" else (5 + length) / 6
        return (base.to(torch.float32) if isinstance(base, torch.Tensor) else float(base)) ** self.length_penalty

    def __call__(self, score: Tensor, length: int, coverage: Tensor | None = None) -> Tensor:
        """Scores of hypotheses of one length -> ranks; coverage from `covered`, of the same shape."""
        rank = score / self.divisor(length)
        if self.word_reward:
            rank = rank + self.word_reward * length
        return rank if coverage is None else rank + coverage

    def of(self, score: float, length: int, coverage: float = 0.0) -> float:
        """The same for one hypothesis."""
        return float(score / self.divisor(length)) + self.word_reward * length + coverage

    def covered(self, attention: Tensor, visible: Tensor | None) -> Tensor:
        """Sums of attention weights (..., S), source positions that count (..., S) -> the coverage term (...)."""
        logs = attention.clamp(LEAST_COVERAGE, 1.0).log()
        if visible is not None:
            logs = logs.masked_fill(~visible, 0.0)
        return self.coverage_penalty * logs.sum(-1)

    def bound(self, score: Tensor, length: int, limit: Tensor, bonus: float = 0.0) -> Tensor:
        """The best rank that a live hypothesis with this score can reach in `length` + 1 to `limit` tokens.

        Log-probabilities are at most 0, so its score can only fall, but for the `bonus` that rules may still add.
        """
        best = score + bonus
        near, far = self.divisor(length + 1), self.divisor(limit)
        bound = torch.where(best < 0, best / far, best / near)
        if self.word_reward:
            bound = bound + self.word_reward * (limit if self.word_reward > 0 else length + 1)
        return bound


def ranking_of(options: SearchOptions) -> Ranking:
    """The final score that options ask for."""
    return Ranking(options.length_penalty, options.length_rule, options.word_reward, options.coverage_penalty)
