"""Bias, dropout, residual connection and layer norm in one pass on a GPU; the reference is `harken.nn.transformer.fused`.

x' = x + dropout(c + b)      y = (x' - mean) / sqrt(var + eps) * w + v

The residual stream x is read and written once, in float32; y is written in the dtype of the next product. torch makes
five kernels of it, and its backward pass reads the stream again for the gradients of w and v. Here the backward pass
sums the columns for b, w and v while it computes the gradients of x and c.

Dropout draws 16 bytes per Philox call, one for each of 16 rows, so p is rounded to a multiple of 1/256 (and the scale
with it: the mean stays exact), as in `harken.nn.dropout`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.settings import has_triton, kernels_enabled
from harken.kernels.triton_import import tl, triton

ROWS = 2  # of a tile in the forward pass; a program handles 16 tiles
BACKWARD_ROWS = 4
PROGRAMS = 528  # of the backward pass: four for each multiprocessor of an H200
WIDEST = 2048  # features that a program holds


def is_supported(values: Tensor, width: int) -> bool:
    """Whether the kernels can run."""
    return values.is_cuda and has_triton() and kernels_enabled() and width <= WIDEST


@triton.jit
def forward_kernel(
    values,
    change,
    change_bias,
    weight,
    bias,
    seed,
    out,
    normed,
    keep,
    means,
    inverses,
    rows,
    width,
    eps,
    scale,
    place,
    THRESHOLD: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """16 tiles of rows; `place` numbers the call, so that calls with one seed draw differently."""
    columns = tl.arange(0, WIDTH)
    real = columns < width
    shift = tl.load(change_bias + columns, mask=real, other=0.0).to(tl.float32)
    w = tl.load(weight + columns, mask=real, other=0.0).to(tl.float32)
    v = tl.load(bias + columns, mask=real, other=0.0).to(tl.float32)
    first = tl.program_id(0) * (16 * ROWS)
    lanes = tl.arange(0, ROWS)
    words = (tl.program_id(0) * ROWS + lanes)[:, None] * WIDTH + columns[None, :]
    if THRESHOLD > 0:
        a, b, c, d = tl.randint4x(tl.load(seed) + place, words)
    for tile in tl.static_range(16):
        row = first + tile * ROWS + lanes
        inside = (row < rows)[:, None] & real[None, :]
        at = row[:, None].to(tl.int64) * width + columns[None, :]
        x = tl.load(values + at, mask=inside, other=0.0).to(tl.float32)
        added = tl.load(change + at, mask=inside, other=0.0).to(tl.float32) + shift[None, :]
        if THRESHOLD > 0:
            word = a if tile // 4 == 0 else b if tile // 4 == 1 else c if tile // 4 == 2 else d
            kept = ((word >> (8 * (tile % 4))) & 255) >= THRESHOLD
            added = tl.where(kept, added * scale, 0.0)
            tl.store(keep + at, kept.to(tl.int8), mask=inside)
        x = tl.where(inside, x + added, 0.0)
        tl.store(out + at, x.to(out.dtype.element_ty), mask=inside)
        mean = tl.sum(x, 1) / width
        centred = tl.where(inside, x - mean[:, None], 0.0)
        inverse = 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / width + eps)
        y = centred * inverse[:, None] * w[None, :] + v[None, :]
        tl.store(normed + at, y.to(normed.dtype.element_ty), mask=inside)
        tl.store(means + row, mean, mask=row < rows)
        tl.store(inverses + row, inverse, mask=row < rows)


@triton.jit
def backward_kernel(
    grad_out,
    grad_normed,
    out,
    keep,
    means,
    inverses,
    weight,
    grad_values,
    grad_change,
    sums,
    rows,
    width,
    scale,
    THRESHOLD: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Every program takes each n-th tile and leaves its sums over rows in sums (3, programs, D)."""
    columns = tl.arange(0, WIDTH)
    real = columns < width
    lanes = tl.arange(0, ROWS)
    w = tl.load(weight + columns, mask=real, other=0.0).to(tl.float32)
    weight_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    bias_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    change_sum = tl.zeros([ROWS, WIDTH], tl.float32)
    programs = tl.num_programs(0)
    for tile in range(tl.program_id(0), (rows + ROWS - 1) // ROWS, programs):
        row = tile * ROWS + lanes
        there = row < rows
        inside = there[:, None] & real[None, :]
        at = row[:, None].to(tl.int64) * width + columns[None, :]
        x = tl.load(out + at, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(grad_normed + at, mask=inside, other=0.0).to(tl.float32)
        dx = tl.load(grad_out + at, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(means + row, mask=there, other=0.0)
        inverse = tl.load(inverses + row, mask=there, other=0.0)
        unit = tl.where(inside, (x - mean[:, None]) * inverse[:, None], 0.0)
        weighted = dy * w[None, :]
        along = tl.sum(weighted * unit, 1) / width
        level = tl.sum(weighted, 1) / width
        dx += (weighted - unit * along[:, None] - level[:, None]) * inverse[:, None]
        dx = tl.where(inside, dx, 0.0)
        tl.store(grad_values + at, dx.to(grad_values.dtype.element_ty), mask=inside)
        dc = dx
        if THRESHOLD > 0:
            kept = tl.load(keep + at, mask=inside, other=0)
            dc = tl.where(kept != 0, dx * scale, 0.0)
        tl.store(grad_change + at, dc.to(grad_change.dtype.element_ty), mask=inside)
        weight_sum += dy * unit
        bias_sum += dy
        change_sum += dc
    to = sums + tl.program_id(0) * width + columns
    tl.store(to, tl.sum(weight_sum, 0), mask=real)
    tl.store(to + programs * width, tl.sum(bias_sum, 0), mask=real)
    tl.store(to + 2 * programs * width, tl.sum(change_sum, 0), mask=real)


def _threshold(dropout: float) -> tuple[int, float]:
    threshold = min(255, round(dropout * 256))
    return threshold, 256 / (256 - threshold)


@torch.library.custom_op(
    "harken::residual_norm",
    mutates_args=(),
    schema="(Tensor values, Tensor change, Tensor change_bias, Tensor weight, Tensor bias, Tensor seed, int place,"
    " float eps, float dropout) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def operator(
    values: Tensor,
    change: Tensor,
    change_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    seed: Tensor,
    place: int,
    eps: float,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """x', y, and for the backward pass which values were kept, means and inverse standard deviations."""
    rows, width = values.shape
    threshold, scale = _threshold(dropout)
    out, normed = torch.empty_like(values), torch.empty_like(change)
    keep = torch.empty(values.shape if threshold else (0,), dtype=torch.int8, device=values.device)
    means, inverses = torch.empty(2, rows, dtype=torch.float32, device=values.device).unbind()
    means, inverses = means.clone(), inverses.clone()  # outputs of an operator may not share memory
    forward_kernel[(-(-rows // (16 * ROWS)),)](
        *(values, change, change_bias, weight, bias, seed, out, normed, keep, means, inverses),
        *(rows, width, eps, scale, place),
        **{"THRESHOLD": threshold, "WIDTH": triton.next_power_of_2(width), "ROWS": ROWS, "num_warps": 4},
    )
    return out, normed, keep, means, inverses


@operator.register_fake
def _(values: Tensor, change: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    rows, dropout = values.shape[0], rest[-1]
    keep = values.new_empty(values.shape if _threshold(dropout)[0] else (0,), dtype=torch.int8)
    statistics = [values.new_empty(rows, dtype=torch.float32) for _ in range(2)]
    return torch.empty_like(values), torch.empty_like(change), keep, statistics[0], statistics[1]


@torch.library.custom_op(
    "harken::residual_norm_backward",
    mutates_args=(),
    schema="(Tensor grad_out, Tensor grad_normed, Tensor out, Tensor keep, Tensor means, Tensor inverses, Tensor weight,"
    " float dropout) -> (Tensor, Tensor, Tensor)",
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
    programs = max(1, min(PROGRAMS, -(-rows // BACKWARD_ROWS)))
    sums = torch.empty(3, programs, width, dtype=torch.float32, device=out.device)
    backward_kernel[(programs,)](
        *(grad_out.contiguous(), grad_normed.contiguous(), out, keep, means, inverses, weight),
        *(grad_values, grad_change, sums, rows, width, scale),
        **{"THRESHOLD": threshold, "WIDTH": triton.next_power_of_2(width), "ROWS": BACKWARD_ROWS, "num_warps": 4},
    )
    return grad_values, grad_change, sums.sum(1)


@backward_operator.register_fake
def _(grad_out: Tensor, grad_normed: Tensor, out: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(out), torch.empty_like(grad_normed), out.new_empty(3, out.shape[1], dtype=torch.float32)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    out, _, keep, means, inverses = output
    ctx.dropout = inputs[-1]
    ctx.save_for_backward(out, keep, means, inverses, inputs[3])


def _backward(ctx: Any, grad_out: Tensor, grad_normed: Tensor, *rest: Any) -> tuple[Any, ...]:
    out, keep, means, inverses, weight = ctx.saved_tensors
    grads = backward_operator(grad_out, grad_normed, out, keep, means, inverses, weight, ctx.dropout)
    grad_values, grad_change, sums = grads
    return grad_values, grad_change, sums[2], sums[0], sums[1], None, None, None, None


operator.register_autograd(_backward, setup_context=_setup_context)


def residual_norm(
    values: Tensor,
    change: Tensor,
    change_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    seed: Tensor,
    place: int,
    eps: float,
    dropout: float,
) -> tuple[Tensor, Tensor]:
    """Values (M, D), change (M, D), vectors (D,) in float32, seed (1,) int64 -> x' like `values`, y like `change`."""
    return operator(values, change, change_bias, weight, bias, seed, place, eps, dropout)[:2]
