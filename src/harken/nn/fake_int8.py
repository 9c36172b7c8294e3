"""Products as int8 decoding computes them, for training: both factors are rounded, and gradients ignore it.

    q(x) = s round(x / s),   s = max_k |x_k| / 127        one scale for each row, of inputs and of weights
    y = q(x) q(W)^T + b      dq(x)/dx = 1                  straight-through (Bengio et al., 2013)

These are the products of the compiled decoders in int8 (`harken.kernels.decoding.products`): a network fine-tuned with
them sees the rounding that its search will make (Jacob et al., 2018).

>>> fake_int8(torch.tensor([[127.0, 0.6, -3.4], [0.0, 0.0, 0.0]])).tolist()
[[127.0, 1.0, -3.0], [0.0, 0.0, 0.0]]
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class _FakeInt8(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        exact = values.to(torch.promote_types(values.dtype, torch.float32))
        scales = exact.abs().amax(-1, keepdim=True) / 127
        inverse = torch.where(scales > 0, 1 / scales, 0.0)
        return (exact * inverse).round_().mul_(scales).to(values.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return gradients[0]


def fake_int8(values: Tensor) -> Tensor:
    """Rows (..., K) rounded to whole multiples of their scales; gradients pass unchanged."""
    rounded: Tensor = _FakeInt8.apply(values)  # type: ignore[no-untyped-call]
    return rounded


class Int8Linear(nn.Linear):
    """A linear layer whose input and weight are rounded.

    >>> layer = Int8Linear(3, 2)
    >>> layer(torch.randn(4, 3)).shape
    torch.Size([4, 2])
    """

    def forward(self, values: Tensor) -> Tensor:
        """(..., K) -> (..., O)."""
        return F.linear(*operands(self, values), self.bias)


def operands(layer: nn.Linear, values: Tensor) -> tuple[Tensor, Tensor]:
    """The factors x and W of a layer's product."""
    if isinstance(layer, Int8Linear):
        return fake_int8(values), fake_int8(layer.weight)
    return values, layer.weight


def round_to_int8(module: nn.Module) -> None:
    """Let all linear layers inside a module round; their weights stay the same parameters."""
    for part in module.modules():
        if type(part) is nn.Linear:
            part.__class__ = Int8Linear
