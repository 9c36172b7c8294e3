"""Several models as one: the weighted mean of their distributions at every step.

    p(v | y_<t, x) = sum_i w_i p_i(v | y_<t, x),     sum_i w_i = 1

The models may have different architectures; they read the same sources and write the same vocabulary. An ensemble has
the `start` and `step` of a single model, so every search works with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor


class EnsembleState:
    """The states of all models."""

    def __init__(self, states: Sequence[Any]) -> None:
        self.states = list(states)
        self.beam = 1

    @property
    def need_weights(self) -> bool:
        """Whether steps leave attention."""
        return all(state.need_weights for state in self.states)

    @need_weights.setter
    def need_weights(self, value: bool) -> None:
        for state in self.states:
            state.need_weights = value

    @property
    def attention(self) -> Tensor | None:
        """(R, S): the mean over the models that have attention."""
        weights = [state.attention for state in self.states if state.attention is not None]
        return torch.stack(weights).mean(0) if weights else None

    def reorder_(self, beam_index: Tensor) -> None:
        """See `harken.search.contract`."""
        for state in self.states:
            state.reorder_(beam_index)

    def expand_(self, beam: int) -> None:
        """See `harken.search.contract`."""
        for state in self.states:
            state.expand_(beam)
        self.beam = beam

    def keep_(self, sources: Tensor) -> None:
        """See `harken.search.contract`."""
        for state in self.states:
            state.keep_(sources)


class Ensemble:
    """Models with `start` and `step`, and their weights.

    Args:
        weights: one for each model, above 0; they are divided by their sum. Default: all equal.

    Raises:
        UserError: no models, or weights that do not match them.
    """

    def __init__(self, models: Sequence[Any], weights: Sequence[float] | None = None) -> None:
        weights = [1.0] * len(models) if weights is None else list(weights)
        if not models or len(weights) != len(models):
            raise UserError(f"an ensemble of {len(models)} models has {len(weights)} weights; give one for each model")
        if not all(0 < weight < math.inf for weight in weights):
            raise UserError("the weights of an ensemble must be above 0; leave a model out instead")
        self.models, self.weights = list(models), [weight / sum(weights) for weight in weights]

    def start(self, *source: Any, **options: Any) -> EnsembleState:
        """The state of every model after the sources."""
        return EnsembleState([model.start(*source, **options) for model in self.models])

    def step(self, tokens: Tensor, state: EnsembleState) -> Tensor:
        """Tokens (R,) -> log-probabilities (R, V)."""
        parts: list[Tensor] = []
        for model, inner, weight in zip(self.models, state.states, self.weights, strict=True):
            logits = model.step(tokens, inner)
            if parts and logits.shape != parts[0].shape:
                raise UserError(
                    f"the models of an ensemble write {parts[0].shape[1]:,} and {logits.shape[1]:,} tokens; they need "
                    "one vocabulary"
                )
            parts.append(torch.log_softmax(logits.float(), -1) + math.log(weight))
        return torch.logsumexp(torch.stack(parts), 0)
