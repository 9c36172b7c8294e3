"""Norm, projection and cross-attention of a few rows in one kernel, one program for each row and head.

    q = W_q norm(x)    c = sum_s softmax_s(q . k_s / sqrt(K)) v_s

A program reads the rows of W_q of its head, which it may do before the kernel in front of it has ended, and attends as
`attention.py` does. A launch costs more than reading these weights once for each row. The same with the three maps of
self-attention was measured to be slower than two kernels.
"""

from __future__ import annotations

from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.decoding.cuda.attention import attend_slots
from harken.kernels.decoding.cuda.norm import normalise
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import Linear, Norm
from harken.kernels.triton_import import tl, triton

TILE = 32768  # the most weights of a head that a program holds
BLOCK, WARPS = 32, 8


@triton.jit
def projected_kernel(
    residual: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    gain: tl.tensor,
    shift: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    lengths: tl.tensor,
    context: tl.tensor,
    width: tl.tensor,
    heads: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    scale: tl.tensor,
    epsilon: tl.tensor,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row and head: residual (R, D), weight (D, D), keys and values (B, N, S, K), context (R, D)."""
    if OVERLAP:
        allow_next()
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    feature, column = tl.arange(0, K), tl.arange(0, WIDTH)
    inside, output = column < width, head * K + feature
    offset = weight + output[:, None] * width + column[None, :]
    of_query = tl.load(offset, inside[None, :], other=0.0)
    query = tl.load(bias + output).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    normed = tl.load(residual + row * width + column, inside, other=0.0)
    normed = normalise(normed, gain, shift, column, width, epsilon)
    query = (query + tl.sum(of_query.to(tl.float32) * normed[None, :], 1)) * scale
    owner = row // beam
    length = tl.load(lengths + owner).to(tl.int32)
    peak, total = tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32)
    mixed = attend_slots(
        query, keys, values, lengths, row, owner, head, length, heads, capacity, peak, total,
        tl.zeros((K,), tl.float32), feature, False, K, BLOCK,
    )  # fmt: skip
    tl.store(context + row * width + output, mixed.to(context.dtype.element_ty))


def why_not_projected(layer: Linear, keys: Tensor) -> str | None:
    """The weights of a head have to fit into a program."""
    fits = keys.shape[3] * triton.next_power_of_2(layer.weight.shape[1]) <= TILE
    return None if layer.bias is not None and fits else "the weights of a head do not fit into a program"


def projected_cross_attention(
    residual: Tensor, layer: Linear, norm: Norm, keys: Tensor, values: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """x (R, D) through the norm and the map to queries -> (R, D); see `cross_attention`."""
    (rows, width), (owners, heads, capacity, size) = residual.shape, keys.shape
    context = residual.new_empty(rows, width, dtype=keys.dtype)
    projected_kernel[(rows, heads)](
        residual, layer.weight, layer.bias, norm.weight, norm.bias, keys, values, lengths, context,
        width, heads, capacity, rows // owners, scale, norm.epsilon,
        K=size, WIDTH=triton.next_power_of_2(width), BLOCK=BLOCK, num_warps=WARPS, **options(keys.is_cuda),
    )  # fmt: skip
    return context


PROJECTED = Backend("projected", why_not_projected, projected_cross_attention)
