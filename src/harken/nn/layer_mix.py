"""A learned weighted sum of the outputs of all layers.

    s = softmax(w),   v_t = gamma sum_j s_j h_{j,t}          w and gamma learned

Initially the weights are uniform and gamma is 1. Peters et al. (2018), "Deep contextualized word representations".

>>> mix = LayerMix(2)
>>> mix(torch.tensor([[[2.0, 0.0]], [[4.0, 2.0]]])).tolist()
[[3.0, 1.0]]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LayerMix(nn.Module):
    """Layers (L, ..., W) -> (..., W)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    @property
    def weights(self) -> Tensor:
        """(L,): the weight of each layer; they sum to 1."""
        return torch.softmax(self.scores, 0)

    def forward(self, layers: Tensor) -> Tensor:
        """The weighted sum over the first axis."""
        if len(layers) != len(self.scores):
            raise ValueError(f"{len(layers)} layers for a mix of {len(self.scores)}")
        mix: Tensor = self.gamma * torch.tensordot(self.weights.to(layers.dtype), layers, dims=1)
        return mix
