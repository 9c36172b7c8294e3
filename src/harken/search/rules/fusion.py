"""Shallow fusion: a language model of the target has a say in every token (Gulcehre et al., 2015).

    score(v) = log p(v | y_<t, x) + weight * log p_lm(v | y_<t)

The language model has the vocabulary of the target. Its texts begin after an EOS, as in its training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.search.rules.base import ScoreRule, SoFar

if TYPE_CHECKING:
    from torch import Tensor


class LanguageModelFusion(ScoreRule):
    """Adds weighted log-probabilities of a language model.

    Args:
        model: with `step` (`harken.search.contract`).
        state: of it, one row for each source of the call, before the first token.
        weight: 0 or more.
    """

    def __init__(self, model: Any, state: Any, weight: float) -> None:
        if not weight >= 0:
            raise UserError(f"search.lm_weight is {weight}; it must be 0 or more")
        self.model, self.state, self.weight = model, state, weight

    def __call__(self, scores: Tensor, so_far: SoFar) -> Tensor:
        rows = len(so_far.tokens)
        last = so_far.tokens[:, -1] if so_far.length else torch.full((rows,), EOS, device=scores.device)
        logits = self.model.step(last, self.state)
        if logits.shape != scores.shape:
            raise UserError(
                f"the language model has {logits.shape[1]:,} tokens and the translator {scores.shape[1]:,}; train it "
                "with the translator's target tokenizer"
            )
        return scores + self.weight * torch.log_softmax(logits.float(), -1)

    def expand_(self, beam: int) -> None:
        self.state.expand_(beam)

    def reorder_(self, beam_index: Tensor) -> None:
        self.state.reorder_(beam_index)

    def keep_(self, sources: Tensor) -> None:
        self.state.keep_(sources)
