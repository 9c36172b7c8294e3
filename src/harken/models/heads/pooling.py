"""Pooling: the states of all steps as one vector, by last, mean, max or attention.

last        recurrent: the last state of each direction; others: the state at the last word
mean, max   over the steps, element by element
attention   sum_t a_t h_t with a = softmax(score(q, h_t)), q learned (`harken.nn.attention.pooling`)

Padding changes none of them. Lin et al. (2017), Conneau et al. (2017).

>>> memory = Memory(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
>>> [Pooling(kind, 1)(memory, torch.tensor([2]))[0].item() for kind in ("last", "mean", "max")]
[3.0, 2.0, 3.0]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.base import Memory
from harken.nn.attention.pooling import AttentionPooling

POOLINGS = ("last", "mean", "max", "attention")


class Pooling(nn.Module):
    """Memory (B, T, W) -> (B, W), and the weights (B, T) of attention."""

    def __init__(self, kind: str, width: int, score: str = "additive") -> None:
        super().__init__()
        if kind not in POOLINGS:
            raise ValueError(f"there is no pooling called {kind!r}; choose one of {', '.join(POOLINGS)}")
        self.kind = kind
        self.attention = AttentionPooling(width, score) if kind == "attention" else None

    def forward(self, memory: Memory, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """`lengths` (B,), None where there is no padding."""
        if self.attention is not None:
            vector, weights = self.attention(memory.values, lengths)
            return vector, weights
        if self.kind == "last":
            return _last(memory, lengths), None
        if memory.mask is None:
            return (memory.values.mean(1) if self.kind == "mean" else memory.values.amax(1)), None
        visible = memory.mask[:, :, None]  # (B, T, 1)
        if self.kind == "mean":
            return torch.where(visible, memory.values, 0.0).sum(1) / visible.sum(1), None
        return memory.values.masked_fill(~visible, -torch.inf).amax(1), None


def _last(memory: Memory, lengths: Tensor | None) -> Tensor:
    if memory.states is not None:
        return memory.states[-1][0]
    if lengths is None:
        return memory.values[:, -1]
    return memory.values[torch.arange(len(lengths), device=lengths.device), lengths - 1]
