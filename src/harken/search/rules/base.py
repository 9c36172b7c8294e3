"""The interface of score rules, and the hypotheses that they are called with.

A rule is a function on the scores of the next token and the tokens so far: scores (R, V) in, scores (R, V) out. Rules
are composed in a list; each gets what the one before it returned. They add penalties, exclude tokens with -inf, or
force one. The sum of what they add is kept apart from the model's log-probabilities (`Hypothesis.added`). A rule may
also restrict the distribution itself, before the softmax (`restrict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harken.lazy_torch import torch
from harken.search.hypotheses import NEG_INF, NOT_IN_TEXT

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SoFar:
    """The live hypotheses at a step."""

    tokens: Tensor  # (R, t) without BOS; all of one length
    source: Tensor  # (R,) the index of each row's source in the call
    limit: Tensor  # (R,) the most tokens of each row, EOS included

    @property
    def length(self) -> int:
        """t."""
        return self.tokens.shape[1]


class ScoreRule:
    """Changes nothing; the base class of all rules. Most rules have no state and override `__call__` alone."""

    bonus: float = 0.0  # the most that it can add to the score of one hypothesis, for the exact stopping rule
    needs_beam: bool = False  # whether hypotheses have to compete for it

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        """Scores (R, V) of the next token -> scores (R, V); it may change them in place."""
        return scores

    def restrict(self, logits: Tensor, so_far: SoFar) -> Tensor:
        """Logits (R, V) -> logits with -inf for tokens that have no probability at all; not in place."""
        return logits

    def expand_(self, beam: int) -> None:
        """From one hypothesis a source to `beam`."""

    def reorder_(self, beam_index: Tensor) -> None:
        """Hypotheses change places, as in `State.reorder_`."""

    def keep_(self, sources: Tensor) -> None:
        """Only some sources go on, as in `State.keep_`."""


def next_scores(logits: Tensor, rules: Sequence[ScoreRule], so_far: SoFar | None) -> tuple[Tensor, Tensor]:
    """Logits (R, V) -> what to rank by and the model's log-probabilities, both (R, V), in float32 or better.

    Ids that are no text are excluded from what is ranked. Without rules both are one tensor. It may be the memory of
    the logits.
    """
    if rules and so_far is not None:
        for rule in rules:
            logits = rule.restrict(logits, so_far)
    exact = torch.promote_types(logits.dtype, torch.float32)
    if logits.device.type == "cpu" and logits.dtype == exact:  # in place: a second table of R x V costs as much again
        raw = torch.log_softmax(logits, -1, out=logits)
    else:
        raw = torch.log_softmax(logits, -1, dtype=exact)
    scores = raw
    if rules and so_far is not None:
        scores = raw.clone()
        for rule in rules:
            scores = rule(scores, so_far)
    return exclude_(scores, NOT_IN_TEXT), raw


def exclude_(scores: Tensor, tokens: Iterable[int]) -> Tensor:
    """Scores (R, V) with -inf for these tokens, in place."""
    for token in tokens:
        scores[:, token] = NEG_INF
    return scores
