"""What a recurrent decoder carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from harken.nn.recurrent.cell import State


@dataclass
class RecurrentState:
    """The decoder's layers, what comes along with the next token, and the memory it looks into."""

    layers: list[State]  # (h,) or (h, C) of each, (B, H)
    feed: Tensor | None  # (B, H) the last attentional state, or the constant context
    keys: Tensor | None  # (B, S, A)
    memory: Tensor | None  # (B, S, H)
    mask: Tensor | None  # (B, S)
    owner: Tensor  # (B,) the source each row belongs to
    coverage: Tensor | None = None  # (B, S) the sum of the weights so far

    def select(self, rows: Tensor) -> RecurrentState:
        """Reorder, repeat or drop rows; the memory is copied only where a row changes its source."""
        owner = self.owner[rows]
        layers = [tuple(part[rows] for part in layer) for layer in self.layers]
        feed = None if self.feed is None else self.feed[rows]
        coverage = None if self.coverage is None else self.coverage[rows]
        state = replace(self, layers=layers, feed=feed, coverage=coverage)
        if self.memory is None or self.keys is None or torch.equal(owner, self.owner):
            return replace(state, owner=owner)
        mask = None if self.mask is None else self.mask[rows]
        return replace(state, keys=self.keys[rows], memory=self.memory[rows], mask=mask, owner=owner)
