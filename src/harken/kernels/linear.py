"""Linear maps with a bias on a GPU, optionally with ReLU; the reference is `torch.nn.functional.linear`.

y = f(x W^T + b), f the identity or ReLU. The products are cuBLAS's, whose epilogue adds the bias and applies ReLU. What
torch lacks is in the backward pass: the gradient through ReLU and the column sums for b are one kernel (torch reads the
gradient three times for them).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.settings import why_no_triton
from harken.kernels.triton_import import tl, triton

ROWS, COLUMNS = 32, 128  # a tile
SLICES = 64  # of rows, each summed by one program for every tile of columns


@triton.jit
def backward_kernel(
    grad_output: tl.tensor,
    output: tl.tensor,
    grad_inner: tl.tensor,
    sums: tl.tensor,
    rows: tl.tensor,
    width: tl.tensor,
    steps: tl.tensor,
    RELU: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """Gradient through ReLU, and the sums over the rows of one slice in sums (slices, D)."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    real = columns < width
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    start = tl.program_id(1) * steps * ROWS
    for step in range(steps):
        row = start + step * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & real[None, :]
        at = row[:, None].to(tl.int64) * width + columns[None, :]
        gradient = tl.load(grad_output + at, mask=inside, other=0.0)
        if RELU:
            y = tl.load(output + at, mask=inside, other=0.0)
            gradient = tl.where(y > 0.0, gradient, 0.0)
            tl.store(grad_inner + at, gradient, mask=inside)
        total += gradient.to(tl.float32)
    tl.store(sums + tl.program_id(1) * width + columns, tl.sum(total, 0), mask=real)


@torch.library.custom_op(
    "harken::linear", mutates_args=(), schema="(Tensor values, Tensor weight, Tensor bias, bool relu) -> Tensor"
)
def operator(values: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    """Values (M, D), weight (E, D), bias (E,) of one dtype -> (M, E)."""
    if relu:
        return torch._addmm_activation(bias, values, weight.t())
    return torch.addmm(bias, values, weight.t())


@operator.register_fake
def _(values: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
    return values.new_empty(values.shape[0], weight.shape[0])


@torch.library.custom_op(
    "harken::linear_backward",
    mutates_args=(),
    schema="(Tensor grad_output, Tensor values, Tensor weight, Tensor output, bool relu) -> (Tensor, Tensor, Tensor)",
)
def backward_operator(
    grad_output: Tensor, values: Tensor, weight: Tensor, output: Tensor, relu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of values, weight and (in float32) bias."""
    rows, width = grad_output.shape
    gradient = grad_output = grad_output.contiguous()
    if relu:
        gradient = torch.empty_like(grad_output)
    slices = max(1, min(SLICES, -(-rows // ROWS)))
    sums = torch.empty(slices, width, dtype=torch.float32, device=values.device)
    steps = -(-rows // (slices * ROWS))
    backward_kernel[(-(-width // COLUMNS), slices)](
        *(grad_output, output, gradient, sums, rows, width, steps),
        RELU=relu,
        ROWS=ROWS,
        COLUMNS=COLUMNS,
        num_warps=4,
    )
    return gradient @ weight, gradient.t() @ values, sums.sum(0)


@backward_operator.register_fake
def _(grad_output: Tensor, values: Tensor, weight: Tensor, output: Tensor, relu: bool) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(values), torch.empty_like(weight), values.new_empty(weight.shape[0], dtype=torch.float32)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    values, weight, bias, ctx.relu = inputs
    ctx.bias_dtype = bias.dtype
    ctx.save_for_backward(values, weight, output if ctx.relu else values)


def _backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
    values, weight, output = ctx.saved_tensors
    grads = backward_operator(grad_output, values, weight, output, ctx.relu)
    return grads[0], grads[1], grads[2].to(ctx.bias_dtype), None


operator.register_autograd(_backward, setup_context=_setup_context)


def linear(values: Tensor, weight: Tensor, bias: Tensor, relu: bool = False) -> Tensor:
    """Values (M, D), weight (E, D), bias (E,) -> (M, E); autocast casts all three."""
    if torch.is_autocast_enabled("cuda"):
        low = torch.get_autocast_dtype("cuda")
        values, weight, bias = values.to(low), weight.to(low), bias.to(low)
    return operator(values, weight, bias, relu)


LINEAR = Backend("triton", lambda values: why_no_triton(values.is_cuda), linear)
