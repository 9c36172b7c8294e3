"""Dropout, and its variational form with one mask for all steps of a sequence.

Training zeroes each value with probability p and scales the rest by 1 / (1 - p), so that the mean stays.
On a CPU `torch.nn.Dropout` spends its time drawing one random float per value; here eight values share one 64-bit
draw, so p is rounded to a multiple of 1/256 (and the scale with it: the mean stays exact).

Srivastava et al. (2014); variational: Gal and Ghahramani (2016).

>>> Dropout(0.5).eval()(torch.ones(3)).tolist()
[1.0, 1.0, 1.0]
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harken.kernels.autograd import takes_torch_operators
from harken.nn.recurrent.options import probability


def random_keep(shape: torch.Size, threshold: int) -> Tensor:
    """A CPU mask, True with probability 1 - threshold/256, eight values from each 64-bit draw."""
    count = shape.numel()
    draws = torch.empty((count + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    return (draws.view(torch.uint8)[:count] >= threshold).view(shape)


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        dropped: Tensor = torch.ops.aten.native_dropout_backward(values, keep, scale)
        return dropped

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (keep,) = ctx.saved_tensors
        return torch.ops.aten.native_dropout_backward(gradients[0], keep, ctx.scale), None, None


class Dropout(nn.Module):
    """Zero each value independently."""

    def __init__(self, p: float) -> None:
        super().__init__()
        probability("p", p, can_be_one=True)
        self.p = p

    def forward(self, values: Tensor) -> Tensor:
        """Any shape in, the same shape out."""
        if not self.training or self.p == 0:
            return values
        threshold = round(self.p * 256)
        # no compiler, tracer or transform of torch.func can follow the draw; other devices have their own
        if not 0 < threshold < 256 or not values.is_cpu or takes_torch_operators():
            return F.dropout(values, self.p)
        keep, scale = random_keep(values.shape, threshold), 256 / (256 - threshold)
        dropped: Tensor = _ByteDropout.apply(values, keep, scale)  # type: ignore[no-untyped-call]
        return dropped

    def extra_repr(self) -> str:
        return f"p={self.p}"


class VariationalDropout(nn.Module):
    """Zero the same features at every step: one mask (B, 1, D) for a sequence (B, T, D).

    >>> dropped = VariationalDropout(0.5)(torch.ones(2, 7, 4))
    >>> torch.equal(dropped[:, :1].expand(2, 7, 4), dropped)  # the same features at every step
    True
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        probability("p", p)
        self.p = p

    def mask(self, batch: int, width: int, like: Tensor) -> Tensor | None:
        """(B, D), to be multiplied with every step of a loop; None where nothing is dropped."""
        if not self.training or self.p == 0:
            return None
        keep = torch.empty(batch, width, device=like.device, dtype=like.dtype).bernoulli_(1 - self.p)
        return keep.div_(1 - self.p)

    def forward(self, values: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        mask = self.mask(values.shape[0], values.shape[-1], values)
        return values if mask is None else values * mask[:, None]

    def extra_repr(self) -> str:
        return f"p={self.p}"
