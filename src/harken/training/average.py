"""A running average of the weights, which translates better than the last weights do.

average <- d * average + (1 - d) * weights, with d = min(decay, (1 + n) / (10 + n)) at update n, so that early weights
are forgotten quickly. Polyak and Juditsky (1992). It is updated every few steps with the matching power of the decay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EVERY = 4  # steps between updates: a pass over all weights each step would cost more than it gives


class Average:
    """Shadow copy of a model's parameters; `decay` 0 keeps none and stands for the weights themselves."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.shadow = {name: value.detach().clone() for name, value in self.parameters.items()} if decay else {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take the weights after `step` in."""
        if not self.decay or step % EVERY:
            return
        decay = min(self.decay, (1 + step) / (10 + step)) ** EVERY
        torch._foreach_lerp_(list(self.shadow.values()), list(self.parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model has the averaged weights inside the block and its own after it."""
        if not self.decay:
            yield
            return
        own = {name: value.detach().clone() for name, value in self.parameters.items()}
        self._load(self.shadow)
        try:
            yield
        finally:
            self._load(own)

    @torch.no_grad()
    def _load(self, tensors: dict[str, Tensor]) -> None:
        for name, parameter in self.parameters.items():
            parameter.copy_(tensors[name])
