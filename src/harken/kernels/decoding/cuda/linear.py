"""A linear map of a few rows in one kernel, with the norm before it and the residual connection after it.

    y = f(W norm(x) + b)          or          x' = x + W y + b

With a few rows the time of a product is that of reading W; cuBLAS takes two or three launches for what is one here.
Every program reads some rows of W once, and the norm is computed again in each of them. For more rows than ROWS torch's
products are faster (`step.py`).
"""

from __future__ import annotations

from torch import Tensor

from harken.kernels.decoding.cuda.norm import normalise
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import Linear, Norm
from harken.kernels.triton_import import tl, triton

ROWS = 8  # the most
TILE = 8192  # elements of W in one program
PROGRAMS = 256  # twice as many as the device has multiprocessors, about
WARPS = 1  # sums need no shared memory


@triton.jit
def linear_kernel(
    inputs: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    gain: tl.tensor,
    shift: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    outputs: tl.tensor,
    epsilon: tl.tensor,
    NORM: tl.constexpr,
    BIAS: tl.constexpr,
    RELU: tl.constexpr,
    ADD: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """BLOCK outputs of all rows: inputs (R, D), weight (O, D), out (R, O), which is added to with ADD."""
    if OVERLAP:
        allow_next()
    column, feature = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside, real = feature < width, column < outputs
    offset = column.to(tl.int64)[:, None] * width + feature[None, :]
    tile = tl.load(weight + offset, real[:, None] & inside[None, :], other=0.0).to(tl.float32)
    known = tl.zeros((BLOCK,), tl.float32)
    if BIAS:
        known = tl.load(bias + column, real, other=0.0).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    for row in tl.static_range(ROWS):
        values = tl.load(inputs + row * width + feature, inside, other=0.0).to(tl.float32)
        if NORM:
            values = normalise(values, gain, shift, feature, width, epsilon)
        result = tl.sum(tile * values[None, :], 1) + known
        if RELU:
            result = tl.maximum(result, 0.0)
        if ADD:
            result += tl.load(out + row * outputs + column, real, other=0.0)
        tl.store(out + row * outputs + column, result.to(out.dtype.element_ty), real)


def few_rows_linear(
    inputs: Tensor, layer: Linear, out: Tensor, *, norm: Norm | None = None, relu: bool = False, add: bool = False
) -> Tensor:
    """Inputs (R, D) through the norm and the layer into `out` (R, O), which is added to with `add`."""
    (outputs, width), rows = layer.weight.shape, len(inputs)
    wide = triton.next_power_of_2(width)
    block = max(1, min(TILE // wide, 1 << max(0, (outputs // PROGRAMS).bit_length() - 1)))
    none = layer.weight
    linear_kernel[(triton.cdiv(outputs, block),)](
        inputs, layer.weight, none if layer.bias is None else layer.bias,
        none if norm is None else norm.weight, none if norm is None else norm.bias, out,
        width, outputs, 0.0 if norm is None else norm.epsilon,
        NORM=norm is not None, BIAS=layer.bias is not None, RELU=relu, ADD=add, ROWS=rows, WIDTH=wide, BLOCK=block,
        num_warps=WARPS, **options(inputs.is_cuda),
    )  # fmt: skip
    return out
