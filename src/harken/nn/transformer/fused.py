"""Parts of a Transformer block for packed sentences (T, D) that are fused on a GPU: linear maps, residual and norm.

Each function is its equation, or calls a kernel that equals it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.linear import LINEAR
from harken.kernels.residual_norm import RESIDUAL_NORM
from harken.nn.dropout import Dropout
from harken.nn.fake_int8 import operands


class DropoutSeed(NamedTuple):
    """The random numbers of dropout: one seed for a forward pass, and an offset for each call.

    A call at the same offset draws the same numbers, also when a block is computed again in the backward pass.
    """

    seed: Tensor  # (1,) int64
    offset: int = 0

    def at(self, offset: int) -> DropoutSeed:
        """Further on by so many calls."""
        return DropoutSeed(self.seed, self.offset + offset)


def linear(layer: nn.Linear, values: Tensor, relu: bool = False) -> Tensor:
    """x W^T + b, or max(0, x W^T + b): (T, D) -> (T, E)."""
    if layer.bias is not None and LINEAR.supports(values):
        return LINEAR.run(*operands(layer, values), layer.bias, relu)
    output = layer(values)
    return F.relu(output) if relu else output


def product(layer: nn.Linear, values: Tensor) -> Tensor:
    """x W^T, without the layer's bias: (T, D) -> (T, E)."""
    return F.linear(*operands(layer, values))


def residual_norm(
    values: Tensor, change: Tensor, bias: Tensor | None, norm: nn.LayerNorm, dropout: Dropout, seed: DropoutSeed
) -> tuple[Tensor, Tensor]:
    """x' = x + dropout(c + b) and norm(x'), each (T, D); without a bias b = 0."""
    bias = torch.zeros_like(norm.bias) if bias is None else bias
    if RESIDUAL_NORM.supports(values):
        p = dropout.p if dropout.training else 0.0
        vectors = bias, norm.weight, norm.bias
        return RESIDUAL_NORM.run(values, change, *vectors, *seed, norm.eps, p)
    values = values + dropout(change + bias)
    return values, norm(values)
