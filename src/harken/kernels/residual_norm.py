"""Bias, dropout, residual connection and layer norm in one pass on a GPU.

The reference is `harken.nn.transformer.fused.residual_norm`.

x' = x + dropout(c + b)      y = (x' - mean) / sqrt(var + eps) * w + v

The residual stream x is read and written once, in float32; y is written in the dtype of the next product. torch makes
five kernels of it, and its backward pass reads the stream again for the gradients of w and v. Here the backward pass
sums the columns for b, w and v while it computes the gradients of x and c.

Dropout takes a random word of four bytes for four rows, so p is rounded to a multiple of 1/256 (and the scale
with it: the mean stays exact), as in `harken.nn.dropout`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton
from harken.kernels.triton_import import tl, triton

WARPS = 4  # for a row of 512 features; 1 and 2 take 4 to 10% longer on an H200
PROGRAMS = 1056  # of the backward pass: 8 for each multiprocessor of an H200
WIDEST = 2048  # features that a program holds


def why_not_fused(values: Tensor) -> str | None:
    """The reason for which the kernels cannot run; None: they can."""
    if values.shape[-1] > WIDEST:
        return f"the features are wider than {WIDEST}"
    return why_no_triton(values.is_cuda)


@triton.jit
def forward_kernel(
    values: tl.tensor,
    change: tl.tensor,
    change_bias: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    seed: tl.tensor,
    out: tl.tensor,
    normed: tl.tensor,
    keep: tl.tensor,
    means: tl.tensor,
    inverses: tl.tensor,
    rows: tl.tensor,
    width: tl.tensor,
    eps: tl.tensor,
    scale: tl.tensor,
    offset: tl.tensor,
    THRESHOLD: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Four rows; `offset` is that of the call, so that calls with one seed draw differently."""
    columns = tl.arange(0, WIDTH)
    real = columns < width
    shift = tl.load(change_bias + columns, mask=real, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=real, other=0.0).to(tl.float32)
    v = tl.load(bias + columns, mask=real, other=0.0).to(tl.float32)
    if THRESHOLD > 0:
        word = tl.randint(tl.load(seed) + offset, tl.program_id(0) * WIDTH + columns)
    for turn in tl.static_range(4):
        row = (tl.program_id(0) * 4 + turn).to(tl.int64)
        at = row * width + columns
        inside = real & (at < rows * width)
        x = tl.load(values + at, mask=inside, other=0.0).to(tl.float32)
        added = tl.load(change + at, mask=inside, other=0.0).to(tl.float32) + shift
        if THRESHOLD > 0:
            is_kept = ((word >> (8 * turn)) & 255) >= THRESHOLD
            added = tl.where(is_kept, added * scale, 0.0)
            tl.store(keep + at, is_kept.to(tl.int8), mask=inside)
        x = tl.where(inside, x + added, 0.0)
        tl.store(out + at, x.to(out.dtype.element_ty), mask=inside)
        mean = tl.sum(x, 0) / width
        centred = tl.where(inside, x - mean, 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + eps)
        y = centred * inverse * w + v
        tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)
        tl.store(means + row, mean)  # there is room for whole programs
        tl.store(inverses + row, inverse)


@triton.jit
def backward_kernel(
    grad_out: tl.tensor,
    grad_normed: tl.tensor,
    out: tl.tensor,
    keep: tl.tensor,
    means: tl.tensor,
    inverses: tl.tensor,
    weight: tl.tensor,
    grad_values: tl.tensor,
    grad_change: tl.tensor,
    sums: tl.tensor,
    rows: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    THRESHOLD: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """Every program takes each n-th row and leaves its sums over rows in sums (3, programs, D)."""
    columns = tl.arange(0, WIDTH)
    real = columns < width
    w = tl.load(weight + columns, mask=real, other=0.0).to(tl.float32)
    weight_sum = tl.zeros([WIDTH], tl.float32)
    bias_sum = tl.zeros([WIDTH], tl.float32)
    change_sum = tl.zeros([WIDTH], tl.float32)
    programs = tl.num_programs(0)
    for row in range(tl.program_id(0), rows, programs):
        at = row * width + columns
        x = tl.load(out + at, mask=real, other=0.0).to(tl.float32)
        dy = tl.load(grad_normed + at, mask=real, other=0.0).to(tl.float32)
        dx = tl.load(grad_out + at, mask=real, other=0.0).to(tl.float32)
        inverse = tl.load(inverses + row)
        unit = tl.where(real, (x - tl.load(means + row)) * inverse, 0.0)
        weighted = dy * w
        along = tl.sum(weighted * unit, 0) / width
        level = tl.sum(weighted, 0) / width
        dx += (weighted - unit * along - level) * inverse
        tl.store(grad_values + at, dx.to(grad_values.dtype.element_ty), mask=real)
        dc = dx
        if THRESHOLD > 0:
            is_kept = tl.load(keep + at, mask=real, other=0)
            dc = tl.where(is_kept != 0, dx * scale, 0.0)
        tl.store(grad_change + at, dc.to(grad_change.dtype.element_ty), mask=real)
        weight_sum += dy * unit
        bias_sum += dy
        change_sum += dc
    to = sums + tl.program_id(0) * width + columns
    tl.store(to, weight_sum, mask=real)
    tl.store(to + programs * width, bias_sum, mask=real)
    tl.store(to + 2 * programs * width, change_sum, mask=real)


def _threshold(dropout: float) -> tuple[int, float]:
    threshold = min(255, round(dropout * 256))
    return threshold, 256 / (256 - threshold)


def _options(threshold: int, width: int) -> dict[str, int]:
    padded = triton.next_power_of_2(width)
    return {"THRESHOLD": threshold, "WIDTH": padded, "num_warps": WARPS * max(1, padded // 512)}


@torch.library.custom_op(
    "harken::residual_norm",
    mutates_args=(),
    schema="(Tensor values, Tensor change, Tensor change_bias, Tensor weight, Tensor bias, Tensor seed, int offset,"
    " float eps, float dropout) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def operator(
    values: Tensor,
    change: Tensor,
    change_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    seed: Tensor,
    offset: int,
    eps: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x', y, and for the backward pass which values were kept, means and inverse standard deviations."""
    rows, width = values.shape
    threshold, scale = _threshold(dropout)
    out, normed = torch.empty_like(values), torch.empty_like(change)
    keep = torch.empty(values.shape if threshold else (0,), dtype=torch.int8, device=values.device)
    programs = -(-rows // 4)
    means, inverses = (torch.empty(4 * programs, dtype=torch.float32, device=values.device) for _ in range(2))
    forward_kernel[(programs,)](
        *(values, change, change_bias, weight, bias, seed, out, normed, keep, means, inverses),
        *(rows, width, eps, scale, offset),
        **_options(threshold, width),
    )
    return out, normed, keep, means, inverses


@operator.register_fake
def _(values: Tensor, change: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, dropout = values.shape[0], rest[-1]
    keep = values.new_empty(values.shape if _threshold(dropout)[0] else (0,), dtype=torch.int8)
    statistics = [values.new_empty(-(-rows // 4) * 4, dtype=torch.float32) for _ in range(2)]
    return torch.empty_like(values), torch.empty_like(change), keep, statistics[0], statistics[1]


@torch.library.custom_op(
    "harken::residual_norm_backward",
    mutates_args=(),
    schema="(Tensor grad_out, Tensor grad_normed, Tensor out, Tensor keep, Tensor means, Tensor inverses,"
    " Tensor weight, float dropout) -> (Tensor, Tensor, Tensor)",
)
def backward_operator(
    grad_out: Tensor,
    grad_normed: Tensor,
    out: Tensor,
    keep: Tensor,
    means: Tensor,
    inverses: Tensor,
    weight: Tensor,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x and c, and (3, D) those of w, v and b."""
    rows, width = out.shape
    threshold, scale = _threshold(dropout)
    grad_values, grad_change = torch.empty_like(out), torch.empty_like(grad_normed)
    programs = max(1, min(PROGRAMS, rows))
    sums = torch.empty(3, programs, width, dtype=torch.float32, device=out.device)
    backward_kernel[(programs,)](
        *(grad_out.contiguous(), grad_normed.contiguous(), out, keep, means, inverses, weight),
        *(grad_values, grad_change, sums, rows, width, scale),
        **_options(threshold, width),
    )
    return grad_values, grad_change, sums.sum(1)


@backward_operator.register_fake
def _(grad_out: Tensor, grad_normed: Tensor, out: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(out), torch.empty_like(grad_normed), out.new_empty(3, out.shape[1], dtype=torch.float32)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    out, _, keep, means, inverses = output
    ctx.dropout = inputs[-1]
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(out, keep, means, inverses, inputs[3])


def _backward(ctx: Any, grad_out: Tensor | None, grad_normed: Tensor | None, *rest: Any) -> tuple[Any, ...]:
    out, keep, means, inverses, weight = ctx.saved_tensors
    grad_out = torch.zeros_like(out) if grad_out is None else grad_out  # x' of the last block is not used
    grad_normed = torch.zeros_like(out) if grad_normed is None else grad_normed
    grads = backward_operator(grad_out, grad_normed, out, keep, means, inverses, weight, ctx.dropout)
    grad_values, grad_change, sums = grads
    return grad_values, grad_change, sums[2], sums[0], sums[1], None, None, None, None


operator.register_autograd(_backward, setup_context=_setup_context)


def residual_norm(values: Tensor, change: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    """Values (M, D), change (M, D), vectors (D,) in float32, seed (1,) int64, and the other arguments of `operator` ->
    x' like `values`, y like `change`."""
    return operator(values, change, *rest)[:2]


RESIDUAL_NORM = Backend("triton", why_not_fused, residual_norm)
