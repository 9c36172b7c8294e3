"""An exponential moving average of the weights, which generalises better than the last weights.

average <- d * average + (1 - d) * weights, with d = min(decay, (1 + n) / (10 + n)) at update n, so that early weights
decay fast. Polyak and Juditsky (1992). It is updated every few steps with the corresponding power of the decay.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

EVERY = 4  # steps between updates: a pass over all weights in every step would be too slow


class Average:
    """Averaged copy of a model's parameters; with `decay` 0 there is none and the weights are used."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = dict(model.named_parameters())
        self.shadow = {name: value.detach().clone() for name, value in self.parameters.items()} if decay else {}

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after `step` to the average."""
        if not self.decay or step % EVERY:
            return
        decay = min(self.decay, (1 + step) / (10 + step)) ** EVERY
        torch._foreach_lerp_(list(self.shadow.values()), list(self.parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the model has the averaged weights, after it its own."""
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
