"""A running average of the weights, which generalises better than the last weights do.

average <- d * average + (1 - d) * weights, with d = min(decay, (1 + n) / (10 + n)) at update n, so that early weights
fade quickly. Polyak and Juditsky (1992). It is updated every few steps with the matching power of the decay. Buffers of
floating-point numbers (batch norm's statistics) are averaged alike, others are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from harken.training.weights import state_of

EVERY = 4  # steps between updates: a pass over all weights each step would cost more than it gives


class Average:
    """Shadow copy of a model's parameters and buffers; `decay` 0 keeps none and stands for the weights themselves."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.state = state_of(model)
        own = {name: local_part(value.detach()).clone() for name, value in self.state.items()} if decay else {}
        self.shadow: dict[str, Tensor] = own
        self.averaged = [name for name, value in self.state.items() if value.is_floating_point()]
        self.copied = [name for name, value in self.state.items() if not value.is_floating_point()]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after `step` to the average."""
        if not self.decay or step % EVERY:
            return
        decay = min(self.decay, (1 + step) / (10 + step)) ** EVERY
        shadows = [self.shadow[name] for name in self.averaged]
        torch._foreach_lerp_(shadows, [local_part(self.state[name]) for name in self.averaged], 1 - decay)
        for name in self.copied:
            self.shadow[name].copy_(local_part(self.state[name]))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside the block the model has the averaged weights, after it its own."""
        if not self.decay:
            yield
            return
        own = {name: local_part(value.detach()).clone() for name, value in self.state.items()}
        self._load(self.shadow)
        try:
            yield
        finally:
            self._load(own)

    @torch.no_grad()
    def _load(self, tensors: dict[str, Tensor]) -> None:
        for name, value in self.state.items():
            local_part(value).copy_(tensors[name])


@torch.no_grad()
def local_part(value: Tensor) -> Tensor:
    """The part of a divided tensor (DTensor) that this rank has; any other tensor as it is. Both share memory."""
    return value.to_local() if hasattr(value, "to_local") else value
