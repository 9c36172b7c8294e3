"""Pictures as a memory: one vector a region, laid out in a grid, for any decoder to look into.

convolutional   r = W relu(V f(x)) + row[i] + column[j]    f: blocks that halve the picture; a region sees little more
                                                           than its own pixels, so where it looks is what it saw
patches         r = blocks(W x[patch] + row[i] + column[j])    a patch is a word, read by Transformer blocks

Regions of a CNN for an LSTM: Xu et al., 2015, "Show, Attend and Tell"; patches: Dosovitskiy et al., 2021.
x is the picture less its mean colour, so that what stands out is what differs from zero; there are no norms, which
would make an empty region as loud as a full one and keep attention from starting (docs/jobs/caption.md).

>>> encoder = RegionEncoder(size=32, channels=[8, 16], depth=[1, 0], width=12)
>>> encoder.grid, encoder(torch.zeros(2, 3, 32, 32)).values.shape
((8, 8), torch.Size([2, 64, 12]))
>>> PatchEncoder(size=32, patch=8, width=12, heads=2, layers=1)(torch.zeros(2, 3, 32, 32)).values.shape
torch.Size([2, 16, 12])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from harken.models.config_encoder import TransformerEncoderConfig
from harken.models.encoder import Encoder
from harken.models.memory import Memory
from harken.models.transformer.encoder import TransformerEncoder
from harken.nn.dropout import Dropout

SPREAD = 64.0  # of a channel's values, 0 to 255, around their mean
STRONG = 6.0  # first attention is even, a thing fills few of 64 regions: it must be strong to be seen in their mean
LOUD = 0.5  # deviation of a place, enough to be heard beside features: without places nothing is left of anything


def contrast(images: Tensor) -> Tensor:
    """Every channel of (B, 3, Y, X) less its mean over the picture."""
    return (images - images.mean((2, 3), keepdim=True)) / SPREAD


class Places(nn.Module):
    """A learned vector for every row and every column of a grid, added to what stands there."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(rows, width) * LOUD)
        self.columns = nn.Parameter(torch.randn(columns, width) * LOUD)

    def forward(self) -> Tensor:
        """(rows x columns, W), row after row."""
        return (self.rows[:, None] + self.columns[None]).flatten(0, 1)


class Block(nn.Module):
    """Halve the picture, then `depth` residual convolutions: 3 x 3, ReLU, variance kept at first (He et al., 2015)."""

    def __init__(self, inputs: int, outputs: int, depth: int) -> None:
        super().__init__()
        self.halve = nn.Conv2d(inputs, outputs, 3, stride=2, padding=1)
        self.convolutions = nn.ModuleList(nn.Conv2d(outputs, outputs, 3, padding=1) for _ in range(depth))
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.zero_()
                    continue
                nn.init.kaiming_normal_(parameter, nonlinearity="relu")
                if name.startswith("convolutions"):
                    parameter.div_(2)  # what is added must not drown the way past it

    def forward(self, values: Tensor) -> Tensor:
        """(B, C, Y, X) -> (B, C', Y / 2, X / 2)."""
        values = torch.relu(self.halve(values))
        for convolution in self.convolutions:
            values = values + torch.relu(convolution(values))
        return values


class ImageEncoder(Encoder):
    """Images (B, 3, Y, X) of values 0 to 255 -> memory (B, rows x columns, W); all of one size, so there is no mask."""

    grid: tuple[int, int]  # rows, columns


class RegionEncoder(ImageEncoder):
    """A convolutional network whose last feature map is the memory."""

    def __init__(
        self,
        *,
        size: int,
        channels: Sequence[int] = (32, 64, 128),
        depth: Sequence[int] = (1, 0, 0),
        width: int = 128,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if len(depth) != len(channels):
            raise ValueError(f"{len(channels)} blocks have channels, but {len(depth)} have a depth")
        side = size >> len(channels)
        if side < 1 or side << len(channels) != size:
            raise ValueError(f"pictures of {size} pixels cannot be halved {len(channels)} times")
        self.grid, self.width, self.embedding = (side, side), width, 3
        self.blocks = nn.ModuleList(map(Block, (3, *channels), channels, depth))
        self.mix = nn.Linear(channels[-1], width)
        self.project = nn.Linear(width, width)
        nn.init.normal_(self.project.weight, std=STRONG * width**-0.5)
        self.places = Places(side, side, width)
        self.dropout = Dropout(dropout)

    def forward(self, embedded: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None) -> Memory:
        """Images (B, 3, Y, X) -> regions, row after row."""
        values = contrast(embedded).to(memory_format=torch.channels_last)
        for block in self.blocks:
            values = block(values)  # (B, C, rows, columns) in the end
        mixed = torch.relu(self.mix(values.flatten(2).transpose(1, 2)))  # (B, S, W)
        regions = self.project(mixed)
        # What is in the picture is known by looking alone: a recurrent decoder begins from nothing.
        nothing: list[tuple[Tensor, ...]] = [(regions.new_zeros(len(regions), self.width),)]
        return Memory(self.dropout(regions + self.places()), None, nothing)


class PatchEncoder(ImageEncoder):
    """Squares of pixels as the words of a Transformer encoder."""

    def __init__(
        self,
        *,
        size: int,
        patch: int = 8,
        width: int = 128,
        layers: int = 2,
        heads: int = 4,
        feedforward: int = 256,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        side = size // patch
        if side < 1 or side * patch != size:
            raise ValueError(f"pictures of {size} pixels cannot be cut into patches of {patch}")
        self.grid, self.width, self.embedding, self.patch = (side, side), width, 3, patch
        self.project = nn.Linear(3 * patch * patch, width)
        self.places = Places(side, side, width)
        sizes: dict[str, Any] = {"layers": layers, "width": width, "heads": heads, "feedforward": feedforward}
        self.blocks = TransformerEncoder(TransformerEncoderConfig(positions="none", dropout=dropout, **sizes))
        self.scale = width**-0.5  # the blocks multiply what they read by sqrt(D), as they do with embeddings

    def forward(self, embedded: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None) -> Memory:
        """Images (B, 3, Y, X) -> patches, row after row."""
        pixels = nn.functional.pixel_unshuffle(contrast(embedded), self.patch)  # (B, 3 P P, rows, columns)
        words = self.project(pixels.flatten(2).transpose(1, 2)) + self.places()  # (B, S, W)
        memory: Memory = self.blocks(words * self.scale, None)
        return memory
