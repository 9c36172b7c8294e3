"""Convolutional encoders, and the convolutions that shorten a sequence before any encoder.

ConvolutionalEncoder    e = embedding + position      h = W e, then blocks      z = W' h, as wide as e

    convs2s  gated convolutions; attention reads z + e, so the memory holds both. Gehring et al. (2017)
    bytenet  dilated convolutions, a norm after the last. Kalchbrenner et al. (2016)

FiltersEncoder          h_t = [relu(W_k e_{t - k/2 .. t + (k - 1)/2} + b_k) for k in kernels]

    One layer with H / len(kernels) filters of each width; with max pooling above, a filter detects a phrase anywhere
    in the text. Kim (2014), "Convolutional Neural Networks for Sentence Classification".

Subsampling             y_t = relu(b + sum_k W_k x_{stride t + k - centre})      T -> ceil(T / stride) in each layer

    Amodei et al. (2016).

>>> from harken.models.config import ConvolutionalConfig
>>> encoder = ConvolutionalEncoder(ConvolutionalConfig(layers=2, width=8, embedding=6))
>>> memory = encoder(torch.randn(2, 5, 6), torch.tensor([5, 3]))
>>> memory.values.shape, memory.embedded.shape
(torch.Size([2, 5, 6]), torch.Size([2, 5, 6]))
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.models.base import Encoder, Memory, refuse_too_long
from harken.nn.convolution.convolution import hide
from harken.nn.convolution.dilated import DilatedBlock, dilations
from harken.nn.convolution.gated import GatedBlock
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask
from harken.nn.positions.absolute import LearnedPositions
from harken.nn.positions.kinds import added_positions

if TYPE_CHECKING:
    from harken.models.config import FiltersEncoderConfig
    from harken.models.convolutional.config import ConvolutionalBlocksConfig


class ConvolutionalInput(nn.Module):
    """Embeddings plus positions (B, T, E), both of about the same size, for encoder and decoder.

    Embeddings are initialised with a standard deviation of E^(-1/2), near the 0.1 of Gehring et al. (2017). ConvS2S
    takes them as they are, as larger ones would saturate its dot-product attention; ByteNet, whose blocks add to them
    what went through a norm, takes them sqrt(E) times as large.
    """

    def __init__(self, config: ConvolutionalBlocksConfig) -> None:
        super().__init__()
        self.positions = added_positions(config.positions, config.embedding, config.max_length)
        self.position_scale = 1.0 if isinstance(self.positions, LearnedPositions) else config.embedding**-0.5
        self.scale = 1.0 if config.style == "convs2s" else math.sqrt(config.embedding)
        self.dropout = Dropout(config.dropout)

    def forward(self, embedded: Tensor, start: int = 0) -> Tensor:
        """(B, T, E), the first at position `start` -> (B, T, E).

        Raises:
            UserError: longer than the positions that were learned.
        """
        if self.positions is not None:
            refuse_too_long(self.positions, start + embedded.shape[1])
            embedded = embedded + self.positions(embedded.shape[1], start) * self.position_scale
        return self.dropout(embedded * self.scale)


class ConvolutionalEncoder(Encoder):
    """ConvS2S or ByteNet, as `config.style` says."""

    def __init__(self, config: ConvolutionalBlocksConfig) -> None:
        super().__init__()
        width, kernel, dropout = config.width, config.kernel, config.dropout
        self.style, self.embedding, self.width = config.style, config.embedding, config.embedding
        self.input = ConvolutionalInput(config)
        self.widen, self.narrow = nn.Linear(config.embedding, width), nn.Linear(width, config.embedding)
        self.blocks = nn.ModuleList(
            GatedBlock(width, kernel, dropout)
            if config.style == "convs2s"
            else DilatedBlock(width, kernel, dilation, dropout)
            for dilation in dilations(config.encoder_depth)
        )
        self.norm = nn.Identity() if config.style == "convs2s" else nn.LayerNorm(width)

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> memory (B, S, E)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        inputs = self.input(embedded)
        values = self.widen(inputs)  # (B, S, D)
        for block in self.blocks:
            values = block(values, mask)
        if self.style == "convs2s":
            return Memory(self.narrow(values), mask, embedded=inputs)
        return Memory(self.narrow(torch.relu(self.norm(values))), mask)


class FiltersEncoder(Encoder):
    """Filters of several widths side by side.

    >>> from harken.models.config import FiltersEncoderConfig
    >>> encoder = FiltersEncoder(FiltersEncoderConfig(embedding=4, width=6, kernels=[1, 2, 3]))
    >>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).values.shape
    torch.Size([2, 5, 6])
    """

    def __init__(self, config: FiltersEncoderConfig) -> None:
        super().__init__()
        self.embedding, self.width, self.kernels = config.embedding, config.width, tuple(config.kernels)
        self.scale = math.sqrt(config.embedding)  # embeddings are initialised small, for a tied output layer
        self.dropout = Dropout(config.dropout)
        each = config.width // len(self.kernels)
        self.filters = nn.ModuleList(nn.Linear(kernel * config.embedding, each) for kernel in self.kernels)

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> memory (B, S, H)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        values = hide(self.dropout(embedded * self.scale), mask)
        steps, features = values.shape[1], []
        for kernel, product in zip(self.kernels, self.filters, strict=True):
            padded = F.pad(values, (0, 0, kernel // 2, (kernel - 1) // 2))
            windows = torch.cat([padded[:, start : start + steps] for start in range(kernel)], -1)  # (B, S, k E)
            features.append(torch.relu(product(windows)))
        return Memory(torch.cat(features, -1), mask)


class ConvolutionFront(nn.Module):
    """Strided convolutions: values (B, T, E) -> (B, T', E), and their lengths. Padding changes nothing.

    >>> front = ConvolutionFront(width=4, layers=2, kernel=3, stride=2)
    >>> values, lengths = front(torch.randn(2, 9, 4), torch.tensor([9, 5]))
    >>> values.shape, lengths.tolist()
    (torch.Size([2, 3, 4]), [3, 2])
    """

    def __init__(self, width: int, layers: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.layers = nn.ModuleList(nn.Conv1d(width, width, kernel, stride, kernel // 2) for _ in range(layers))

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Values (B, T, E) and lengths (B,) -> the same, subsampled."""
        for layer in self.layers:
            values = hide(values, length_mask(lengths, values.shape[1]))
            values = layer(values.transpose(1, 2)).relu().transpose(1, 2)  # (B, ceil(T / stride), E)
            lengths = (lengths + self.stride - 1) // self.stride
        return values, lengths
