"""The encoder of a Transformer: embedding times sqrt(D), plus positions, then blocks that see all of the source.

>>> import torch
>>> encoder = TransformerEncoder(layers=1, width=8, heads=2, feedforward=16)
>>> encoder(torch.randn(2, 5, 8), torch.tensor([5, 3])).mask.sum().item()
8
"""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from harken.models.base import Encoder, Memory, refuse_too_long
from harken.nn.masks import length_mask
from harken.nn.transformer import stack as transformer_stack
from harken.nn.transformer.balance import Balance


class TransformerEncoder(Encoder):
    """Further arguments are those of `harken.nn.TransformerEncoder`."""

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 256,
        heads: int = 4,
        feedforward: int = 1024,
        balance: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__()
        self.embedding = self.width = width
        self.stack = transformer_stack.TransformerEncoder(layers, width, heads, feedforward, **options)
        self.balance = balance if options.get("experts") else 0.0

    def forward(
        self,
        embedded: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        balance: Balance | None = None,
    ) -> Memory:
        """(B, S, E) -> values (B, S, E)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        if balance is not None:
            balance.real = mask
        refuse_too_long(self.stack.positions, embedded.shape[1])
        values = self.stack(embedded * math.sqrt(self.width), lengths, distances, balance)
        return Memory(values, mask)

    def attention(self, embedded: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The weights (B, L, N, S, S) of every layer and head, from a word (row) to all words."""
        _, weights = self.stack.with_weights(embedded * math.sqrt(self.width), lengths)
        return weights
