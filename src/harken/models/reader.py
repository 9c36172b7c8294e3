"""Whatever a sequence is made of, read by any encoder: ids of words or characters, or frames of real numbers.

ids (B, T)        e_t = E[x_t]                       the rows of a matrix; one-hot vectors times E
frames (B, T, C)  e_t = W (x_t - mean) / deviation   sensor values, spectra, pen movements

Encoders multiply what they read by sqrt(E), as they do with embeddings that are tied to an output layer; so both kinds
of input are made small by that much.

>>> import torch
>>> from harken.models.recurrent.encoder import RecurrentEncoder
>>> reader = Reader(FrameInput(3, 8), RecurrentEncoder(embedding=8, width=4))
>>> memory = reader(torch.randn(2, 5, 3), torch.tensor([5, 2]))
>>> memory.values.shape, memory.mask.sum().item()
(torch.Size([2, 5, 4]), 7)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from harken.models.encoder import Encoder
from harken.models.memory import Memory

PAD = 0


class TokenInput(nn.Module):
    """Ids (B, T) -> embeddings (B, T, E)."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(size, width, padding_idx=PAD)
        nn.init.normal_(self.table.weight, std=width**-0.5)
        with torch.no_grad():
            self.table.weight[PAD] = 0.0

    def forward(self, ids: Tensor) -> Tensor:
        """The rows that the ids name."""
        embedded: Tensor = self.table(ids)
        return embedded


class FrameInput(nn.Module):
    """Frames (B, T, C) -> (B, T, E), each channel brought to mean 0 and deviation 1 of the training data."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        # Parameters that are not trained, so that they are saved with the weights.
        self.mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(channels), requires_grad=False)
        self.project = nn.Linear(channels, width)
        self.scale = width**-0.5

    def fit(self, frames: Tensor) -> None:
        """Take mean and deviation from the training data, all frames (N, C); one that never moves is not scaled."""
        with torch.no_grad():
            self.mean.copy_(frames.double().mean(0))
            deviation = frames.double().std(0, correction=0)
            self.deviation.copy_(torch.where(deviation > 1e-12, deviation, 1.0))

    def forward(self, frames: Tensor) -> Tensor:
        """Normalised and projected."""
        projected: Tensor = self.project((frames - self.mean) / self.deviation)
        return projected * self.scale


class Reader(nn.Module):
    """An input and an encoder; `inputs` makes (B, T, E) of what comes."""

    def __init__(self, inputs: nn.Module, encoder: Encoder) -> None:
        super().__init__()
        self.inputs, self.encoder = inputs, encoder

    @property
    def width(self) -> int:
        """W, of what is read."""
        return self.encoder.width

    def forward(self, values: Any, lengths: Tensor | None) -> Memory:
        """What `inputs` takes, and how many of each row are real (None: all) -> memory (B, T, W)."""
        memory: Memory = self.encoder(self.inputs(values), lengths)
        return memory
