"""Convolutions that make a sequence of frames shorter before an encoder reads it.

y_t = relu(b + sum_k W_k x_{stride t + k - centre}),   T -> ceil(T / stride) in each layer

What lies behind the end of a row is taken as 0, as it is when the row stands alone. Reference: Amodei et al. (2016).

>>> front = ConvolutionFront(width=4, layers=2, kernel=3, stride=2)
>>> values, lengths = front(torch.randn(2, 9, 4), torch.tensor([9, 5]))
>>> values.shape, lengths.tolist()
(torch.Size([2, 3, 4]), [3, 2])
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from harken.nn.masks import length_mask


class ConvolutionFront(nn.Module):
    """Values (B, T, E) -> (B, T', E), and their lengths."""

    def __init__(self, width: int, layers: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.layers = nn.ModuleList(nn.Conv1d(width, width, kernel, stride, kernel // 2) for _ in range(layers))

    def forward(self, values: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Padding changes nothing."""
        for layer in self.layers:
            inside = length_mask(lengths, values.shape[1])[:, :, None]
            values = torch.where(inside, values, 0.0)
            values = layer(values.transpose(1, 2)).relu().transpose(1, 2)  # (B, ceil(T / stride), E)
            lengths = (lengths + self.stride - 1) // self.stride
        return values, lengths
