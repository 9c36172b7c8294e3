"""Attention pooling: a set as one vector, c = sum_i softmax(score(q, h))_i h_i with a learned query q.

Any score of `harken.nn.attention.scores` can be used. The result does not depend on the order of the members or on
padding; that of an empty set is 0. Lin et al. (2017), Yang et al. (2016).

>>> pooling = AttentionPooling(4, "scaled")
>>> vector, weights = pooling(torch.randn(2, 3, 4), lengths=torch.tensor([3, 1]))
>>> vector.shape, weights[1].tolist()
(torch.Size([2, 4]), [1.0, 0.0, 0.0])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.attention.functional import Attention
from harken.nn.masks import length_mask
from harken.registry import SCORES


class AttentionPooling(nn.Module):
    """(B, S, D) with lengths (B,) -> (B, D) and the weights (B, S)."""

    def __init__(self, width: int, score: str = "additive", hard: bool = False) -> None:
        super().__init__()
        if score not in SCORES:
            raise ValueError(f"there is no score called {score!r}; choose one of {', '.join(SCORES.names())}")
        self.query = nn.Parameter(torch.randn(width) * width**-0.5)
        self.attention = Attention(SCORES.find(score)(width, width), hard)

    def forward(self, values: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Members from `lengths` on are masked."""
        mask = None if lengths is None else length_mask(lengths, values.shape[1])
        keys = self.attention.score.keys(values)  # type: ignore[operator]
        pooled: tuple[Tensor, Tensor] = self.attention(self.query.expand(values.shape[0], -1), keys, values, mask)
        return pooled
