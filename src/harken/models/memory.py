"""What any encoder hands to any decoder.

>>> memory = Memory(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
>>> memory.summary().tolist()  # the mean over the words, padding left out
[[2.0]]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass
class Memory:
    """The sources of a batch as a decoder sees them."""

    values: Tensor  # (B, S, W)
    mask: Tensor | None  # (B, S) True where there is a word; None: no padding
    states: list[tuple[Tensor, ...]] | None = None  # recurrent encoders: last state of each layer, parts (B, W)
    embedded: Tensor | None = None  # (B, S, W) convolutional encoders: what attention adds to the values (ConvS2S)

    def summary(self) -> Tensor:
        """One vector for the whole source, (B, W): the last state of the top layer, or else the mean over the words."""
        if self.states is not None:
            return self.states[-1][0]
        if self.mask is None:
            return self.values.mean(1)
        visible = self.mask[:, :, None]
        return torch.where(visible, self.values, 0.0).sum(1) / visible.sum(1)

    def through(self, change: Callable[[Tensor], Tensor]) -> Memory:
        """Everything mapped (..., W) -> (..., W')."""
        states = None if self.states is None else [tuple(change(part) for part in parts) for parts in self.states]
        embedded = None if self.embedded is None else change(self.embedded)
        return replace(self, values=change(self.values), states=states, embedded=embedded)
