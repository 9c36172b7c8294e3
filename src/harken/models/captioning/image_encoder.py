"""Image encoders: a memory of one vector per region of a grid, for any decoder.

convolutional   r = W relu(V f(x)) + row[i] + column[j]        f: blocks that halve the image; a region's receptive
                                                               field is little more than its own pixels
patches         r = blocks(W x[patch] + row[i] + column[j])    patches are tokens, read by Transformer blocks

Regions of a CNN for an LSTM: Xu et al. (2015), "Show, Attend and Tell"; patches: Dosovitskiy et al. (2021).
x is the image minus its mean colour. There are no normalisation layers: they would scale an empty region up to the
size of a full one, and attention would not start to learn (docs/how-to/caption.md).

>>> from harken.models.captioning.config import PatchesConfig, RegionsConfig
>>> decoder = {"architecture": "recurrent"}
>>> encoder = RegionEncoder(RegionsConfig(channels=[8, 16], depth=[1, 0], width=12, decoder=decoder), size=32)
>>> encoder.grid, encoder(torch.zeros(2, 3, 32, 32)).values.shape
((8, 8), torch.Size([2, 64, 12]))
>>> patches = PatchesConfig(patch=8, width=12, heads=2, layers=1, decoder=decoder)
>>> PatchEncoder(patches, size=32)(torch.zeros(2, 3, 32, 32)).values.shape
torch.Size([2, 16, 12])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from harken.models.base import Encoder, Memory
from harken.models.build import build_encoder
from harken.models.config import TransformerEncoderConfig
from harken.nn.dropout import Dropout

if TYPE_CHECKING:
    from harken.models.captioning.config import PatchesConfig, RegionsConfig

SPREAD = 64.0  # standard deviation of a channel's values, 0 to 255
PROJECTION_GAIN = (
    6.0  # attention is uniform at first and an object fills few of 64 regions: large enough for their mean
)
POSITION_STD = 0.5  # of the initial row and column vectors, comparable to the features


def contrast(images: Tensor) -> Tensor:
    """Every channel of (B, 3, Y, X) minus its mean over the image."""
    return (images - images.mean((2, 3), keepdim=True)) / SPREAD


class GridPositions(nn.Module):
    """A learned vector for every row and every column of a grid: absolute positions of its regions."""

    def __init__(self, rows: int, columns: int, width: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(rows, width) * POSITION_STD)
        self.columns = nn.Parameter(torch.randn(columns, width) * POSITION_STD)

    def forward(self) -> Tensor:
        """(rows x columns, W), row after row."""
        return (self.rows[:, None] + self.columns[None]).flatten(0, 1)


class Block(nn.Module):
    """Halve the image, then `depth` residual convolutions: 3 x 3, ReLU, He initialisation (He et al., 2015)."""

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
                    parameter.div_(2)  # the residual branch is smaller than the skip connection

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
    """A convolutional network whose last feature map is the memory; images have `size` x `size` pixels."""

    def __init__(self, config: RegionsConfig, size: int) -> None:
        super().__init__()
        side, channels, width = config.side(size), config.channels, config.width
        self.grid, self.width, self.embedding = (side, side), width, 3
        self.blocks = nn.ModuleList(map(Block, (3, *channels), channels, config.depth))
        self.mix = nn.Linear(channels[-1], width)
        self.project = nn.Linear(width, width)
        nn.init.normal_(self.project.weight, std=PROJECTION_GAIN * width**-0.5)
        self.places = GridPositions(side, side, width)
        self.dropout = Dropout(config.dropout)

    def forward(self, embedded: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None) -> Memory:
        """Images (B, 3, Y, X) -> regions, row after row."""
        values = contrast(embedded).to(memory_format=torch.channels_last)
        for block in self.blocks:
            values = block(values)  # (B, C, rows, columns) in the end
        mixed = torch.relu(self.mix(values.flatten(2).transpose(1, 2)))  # (B, S, W)
        regions = self.project(mixed)
        # A recurrent decoder starts from zeros, so that the image is known through attention alone.
        zeros: list[tuple[Tensor, ...]] = [(regions.new_zeros(len(regions), self.width),)]
        return Memory(self.dropout(regions + self.places()), None, zeros)


class PatchEncoder(ImageEncoder):
    """Patches of pixels as the tokens of a Transformer encoder; images have `size` x `size` pixels."""

    def __init__(self, config: PatchesConfig, size: int) -> None:
        super().__init__()
        side, width, self.patch = config.side(size), config.width, config.patch
        self.grid, self.width, self.embedding = (side, side), width, 3
        self.project = nn.Linear(3 * self.patch**2, width)
        self.places = GridPositions(side, side, width)
        keys = ("layers", "width", "heads", "feedforward", "dropout")
        blocks = TransformerEncoderConfig(positions="none", **{key: getattr(config, key) for key in keys})
        self.blocks = build_encoder(blocks)
        self.scale = width**-0.5  # the blocks multiply their inputs by sqrt(D), as they do with embeddings

    def forward(self, embedded: Tensor, lengths: Tensor | None = None, distances: Tensor | None = None) -> Memory:
        """Images (B, 3, Y, X) -> patches, row after row."""
        pixels = nn.functional.pixel_unshuffle(contrast(embedded), self.patch)  # (B, 3 P P, rows, columns)
        tokens = self.project(pixels.flatten(2).transpose(1, 2)) + self.places()  # (B, S, W)
        memory: Memory = self.blocks(tokens * self.scale, None)
        return memory
