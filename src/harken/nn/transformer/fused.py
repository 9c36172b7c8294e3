"""Parts of a Transformer block for packed sentences (T, D) that are fused on a GPU: linear maps, residual and norm.

Each function is its equation, or calls a kernel that equals it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels import linear as linear_kernel
from harken.kernels import residual_norm as residual_kernel
from harken.nn.dropout import Dropout


@dataclass
class Draws:
    """Where the random numbers of dropout come from in a forward pass: one seed, and the number of the next call."""

    seed: Tensor  # (1,) int64
    place: int = 0

    @classmethod
    def on(cls, device: torch.device) -> Draws:
        """A seed drawn on this device."""
        return cls(torch.randint(2**62, (1,), device=device))

    def next(self) -> int:
        """A number that no other call has."""
        self.place += 1
        return self.place


def linear(layer: nn.Linear, values: Tensor, relu: bool = False) -> Tensor:
    """x W^T + b, or max(0, x W^T + b): (T, D) -> (T, E)."""
    if layer.bias is not None and linear_kernel.is_supported(values):
        return linear_kernel.linear(values, layer.weight, layer.bias, relu)
    output = layer(values)
    return F.relu(output) if relu else output


def residual_norm(
    values: Tensor, change: Tensor, bias: Tensor, norm: nn.LayerNorm, dropout: Dropout, draws: Draws
) -> tuple[Tensor, Tensor]:
    """x' = x + dropout(c + b) and norm(x'), each (T, D)."""
    if residual_kernel.is_supported(values, values.shape[-1]):
        p = dropout.p if dropout.training else 0.0
        vectors = bias, norm.weight, norm.bias
        return residual_kernel.residual_norm(values, change, *vectors, draws.seed, draws.next(), norm.eps, p)
    values = values + dropout(change + bias)
    return values, norm(values)
