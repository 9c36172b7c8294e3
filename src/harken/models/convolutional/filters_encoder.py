"""Filters of several widths side by side over the words: each fires at a phrase of its length.

e = dropout(sqrt(E) embedding)
h_t = [relu(W_k e_{t - k/2 .. t + (k - 1)/2} + b_k) for k in kernels]        one layer, H / len(kernels) filters a width

With max pooling above, a filter says whether its phrase stands anywhere in the text. Kim (2014), "Convolutional Neural
Networks for Sentence Classification".

>>> import torch
>>> encoder = FiltersEncoder(embedding=4, width=6, kernels=[1, 2, 3])
>>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).values.shape
torch.Size([2, 5, 6])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.models.base import Encoder, Memory
from harken.nn.convolution.convolution import hide
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask


class FiltersEncoder(Encoder):
    """See the module's text; keyword arguments are those of `FiltersEncoderConfig`."""

    def __init__(
        self, *, embedding: int = 128, width: int = 500, kernels: Sequence[int] = (1, 2, 3, 4, 5), dropout: float = 0.3
    ) -> None:
        super().__init__()
        if width % len(kernels):
            raise ValueError(f"width {width} cannot be dealt out to {len(kernels)} kernels")
        self.embedding, self.width, self.kernels = embedding, width, tuple(kernels)
        self.scale = math.sqrt(embedding)  # embeddings are drawn small for the output layer they are tied to
        self.dropout = Dropout(dropout)
        self.filters = nn.ModuleList(nn.Linear(kernel * embedding, width // len(kernels)) for kernel in kernels)

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> values (B, S, H)."""
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        values = hide(self.dropout(embedded * self.scale), mask)
        steps = values.shape[1]
        found = []
        for kernel, product in zip(self.kernels, self.filters, strict=True):
            around = F.pad(values, (0, 0, kernel // 2, (kernel - 1) // 2))
            windows = torch.cat([around[:, start : start + steps] for start in range(kernel)], -1)  # (B, S, k E)
            found.append(torch.relu(product(windows)))
        return Memory(torch.cat(found, -1), mask)
