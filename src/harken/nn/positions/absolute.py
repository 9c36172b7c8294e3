"""Absolute positions, added to the embeddings: sinusoidal or learned.

p_i[2k] = sin(i / 10000^(2k/D))      p_i[2k + 1] = cos(i / 10000^(2k/D))

Vaswani et al. (2017), section 3.5: every position has another vector, and a shift is a rotation of pairs of features.
Learned positions have a vector for each position up to a maximum: Gehring et al. (2017).

Kinds that change attention instead of its input are in `rotary.py`, `alibi.py`, `relative.py` and `dependency.py`.

>>> [round(value, 4) for value in SinusoidalPositions(4)(2)[1].tolist()]  # sin 1, cos 1, sin 1/100, cos 1/100
[0.8415, 0.5403, 0.01, 0.9999]
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width) table, sines in the even features and cosines in the odd."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    table = torch.empty(length, width, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table.float()


class SinusoidalPositions(nn.Module):
    """A table that grows for a longer sequence; it has no parameters and is not saved."""

    table: Tensor

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", sinusoids(length, width), persistent=False)
        self.outgrown: list[Tensor] = []  # captured CUDA graphs still read them

    def forward(self, length: int, start: int | Tensor = 0) -> Tensor:
        """(length, D): positions start, start + 1, ...; a tensor (1,) is one position that the table must have."""
        if isinstance(start, Tensor):
            return self.table.index_select(0, start)
        if start + length > self.table.shape[0]:
            self._grow(2 * (start + length))
        return self.table[start : start + length]

    def _grow(self, length: int) -> None:
        # A table made in inference mode could not be used in training afterwards.
        normal = torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext()
        self.outgrown.append(self.table)
        with normal:
            self.table = sinusoids(length, self.width).to(self.table)


class LearnedPositions(nn.Module):
    """A vector for each of `length` positions, and none beyond.

    >>> LearnedPositions(width=4, length=10)(3, start=2).shape
    torch.Size([3, 4])
    """

    def __init__(self, width: int, length: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(length, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)

    def forward(self, length: int, start: int | Tensor = 0) -> Tensor:
        """(length, D): positions start, start + 1, ...; a tensor (1,) is one position that the table must have.

        Raises:
            ValueError: the sequence is longer than the table.
        """
        if isinstance(start, Tensor):
            return self.embedding.weight.index_select(0, start)
        most = self.embedding.num_embeddings
        if start + length > most:
            raise ValueError(f"a sequence of {start + length} tokens is too long: positions were learned for {most}")
        return self.embedding.weight[start : start + length]
