"""The encoder of a convolutional network, in one of two styles.

e = embedding + position                    h = W e, then blocks                    z = W' h, as wide as e

convs2s  gated convolutions (`nn/conv_gated.py`); what attention reads is z + e, so e goes along. Gehring et al. (2017)
bytenet  dilated convolutions (`nn/conv_dilated.py`), a norm after the last. Kalchbrenner et al. (2016)

>>> import torch
>>> encoder = ConvolutionalEncoder(layers=2, width=8, embedding=6)
>>> memory = encoder(torch.randn(2, 5, 6), torch.tensor([5, 3]))
>>> memory.values.shape, memory.embedded.shape
(torch.Size([2, 5, 6]), torch.Size([2, 5, 6]))
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.models.base import Encoder, Memory
from harken.models.convolutional.inputs import ConvolutionalInput
from harken.nn.convolution.dilated import DilatedBlock, dilations
from harken.nn.convolution.gated import GatedBlock
from harken.nn.masks import length_mask


class ConvolutionalEncoder(Encoder):
    """See the module's text; keyword arguments are those of `ConvolutionalConfig`."""

    def __init__(
        self,
        *,
        style: str = "convs2s",
        layers: int = 4,
        width: int = 256,
        embedding: int = 256,
        kernel: int = 3,
        dropout: float = 0.1,
        positions: str = "learned",
        max_length: int = 512,
    ) -> None:
        super().__init__()
        self.style, self.embedding, self.width = style, embedding, embedding
        self.input = ConvolutionalInput(style, embedding, dropout, positions, max_length)
        self.widen, self.narrow = nn.Linear(embedding, width), nn.Linear(width, embedding)
        self.blocks = nn.ModuleList(
            GatedBlock(width, kernel, dropout) if style == "convs2s" else DilatedBlock(width, kernel, dilation, dropout)
            for dilation in dilations(layers)
        )
        self.norm = nn.Identity() if style == "convs2s" else nn.LayerNorm(width)

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> values (B, S, E)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        read = self.input(embedded)
        values = self.widen(read)  # (B, S, D)
        for block in self.blocks:
            values = block(values, mask)
        if self.style == "convs2s":
            return Memory(self.narrow(values), mask, embedded=read)
        return Memory(self.narrow(torch.relu(self.norm(values))), mask)
