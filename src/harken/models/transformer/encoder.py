"""The encoder of a Transformer: embeddings times sqrt(D), plus positions, then blocks of self-attention.

Vaswani et al. (2017).

>>> import torch
>>> from harken.models.config import TransformerConfig
>>> encoder = TransformerEncoder(TransformerConfig(layers=1, width=8, heads=2, feedforward=16))
>>> encoder(torch.randn(2, 5, 8), torch.tensor([5, 3])).mask.sum().item()
8
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from harken.models.base import Encoder, Memory, refuse_too_long
from harken.nn.masks import length_mask
from harken.nn.transformer import stack
from harken.nn.transformer.experts import Balance

if TYPE_CHECKING:
    from harken.models.transformer.config import TransformerBlocksConfig


class TransformerEncoder(Encoder):
    """`harken.nn.EncoderStack` on scaled embeddings."""

    def __init__(self, config: TransformerBlocksConfig) -> None:
        super().__init__()
        self.embedding = self.width = config.width
        self.stack = stack.EncoderStack(config.encoder_depth, **config.stack_options)
        self.balance = config.balance if config.experts else 0.0

    def forward(
        self,
        embedded: Tensor,
        lengths: Tensor | None,
        distances: Tensor | None = None,
        balance: Balance | None = None,
    ) -> Memory:
        """Embeddings (B, S, D) -> memory (B, S, D)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        if balance is not None:
            balance.real = mask
        refuse_too_long(self.stack.positions, embedded.shape[1])
        values = self.stack(embedded * self.stack.embedding_scale, lengths, distances, balance)
        return Memory(values, mask)

    def attention(self, embedded: Tensor, lengths: Tensor | None = None) -> Tensor:
        """The weights (B, L, N, S, S) of every layer and head, from a token (row) to all tokens."""
        _, weights = self.stack.with_weights(embedded * self.stack.embedding_scale, lengths)
        return weights
