"""Norm, projection and attention of a few rows in one kernel, one program for each row and head.

    q = W_q norm(x)    k, v likewise in self-attention    c = sum_t softmax_t(q . k_t / sqrt(K)) v_t

A program reads the rows of the weight of its head, which it may do before the kernel in front of it has ended, and
attends as `attention.py` does. With a few rows a launch costs more than reading these weights once for each row.
"""

from __future__ import annotations

from torch import Tensor

from harken.kernels.decoding.cuda.attention import BLOCK, attend_slots
from harken.kernels.decoding.cuda.norm import normalise
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import Linear, Norm
from harken.kernels.triton_import import tl, triton

TILE = 32768  # the most weights of a head that a program holds


@triton.jit
def projected_kernel(
    residual: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    gain: tl.tensor,
    shift: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    ancestry: tl.tensor,
    lengths: tl.tensor,
    context: tl.tensor,
    width: tl.tensor,
    heads: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    scale: tl.tensor,
    epsilon: tl.tensor,
    SELF: tl.constexpr,
    ANCESTRY: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row and head: residual (R, D), weight (D or 3 D, D), caches (rows, N, T, K), context (R, D)."""
    if OVERLAP:
        allow_next()
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    feature, column = tl.arange(0, K), tl.arange(0, WIDTH)
    inside, output = column < width, head * K + feature
    place = weight + output[:, None] * width + column[None, :]
    of_query = tl.load(place, inside[None, :], other=0.0)
    query = tl.load(bias + output).to(tl.float32)
    if SELF:
        of_key = tl.load(place + width * width, inside[None, :], other=0.0)
        of_value = tl.load(place + 2 * width * width, inside[None, :], other=0.0)
        own_key = tl.load(bias + width + output).to(tl.float32)
        own_value = tl.load(bias + 2 * width + output).to(tl.float32)
    if OVERLAP:
        wait_for_previous()
    normed = tl.load(residual + row * width + column, inside, other=0.0)
    normed = normalise(normed, gain, shift, column, width, epsilon)
    query = (query + tl.sum(of_query.to(tl.float32) * normed[None, :], 1)) * scale
    owner = row
    if SELF:
        own_key += tl.sum(of_key.to(tl.float32) * normed[None, :], 1)
        own_value += tl.sum(of_value.to(tl.float32) * normed[None, :], 1)
        length = tl.load(lengths).to(tl.int32)
        slot = ((row * heads + head) * capacity + length) * K + feature
        tl.store(keys + slot, own_key.to(keys.dtype.element_ty))
        tl.store(values + slot, own_value.to(values.dtype.element_ty))
        peak = tl.sum(query * own_key, 0)
        total = tl.full((), 1.0, tl.float32)
        mixed = own_value
    else:
        owner = row // beam
        length = tl.load(lengths + owner).to(tl.int32)
        peak, total = tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32)
        mixed = tl.zeros((K,), tl.float32)
    mixed = attend_slots(
        query, keys, values, ancestry, row, owner, head, length, heads, capacity, peak, total, mixed, feature,
        ANCESTRY, K, BLOCK,
    )  # fmt: skip
    tl.store(context + row * width + output, mixed.to(context.dtype.element_ty))


def is_supported(layer: Linear, keys: Tensor) -> bool:
    """Whether the weights of a head fit into a program."""
    return layer.bias is not None and keys.shape[3] * triton.next_power_of_2(layer.weight.shape[1]) <= TILE


def projected_self_attention(
    residual: Tensor, layer: Linear, norm: Norm, keys: Tensor, values: Tensor, ancestry: Tensor | None,
    position: Tensor, scale: float,
) -> Tensor:  # fmt: skip
    """x (R, D) through the norm and the map to queries, keys and values (3 D) -> (R, D); see `self_attention`."""
    table = position if ancestry is None else ancestry
    return _launch(residual, layer, norm, keys, values, table, position, scale, True, ancestry is not None)


def projected_cross_attention(
    residual: Tensor, layer: Linear, norm: Norm, keys: Tensor, values: Tensor, lengths: Tensor, scale: float
) -> Tensor:
    """x (R, D) through the norm and the map to queries -> (R, D); see `cross_attention`."""
    return _launch(residual, layer, norm, keys, values, lengths, lengths, scale, False, False)


def _launch(
    residual: Tensor, layer: Linear, norm: Norm, keys: Tensor, values: Tensor, ancestry: Tensor, lengths: Tensor,
    scale: float, is_self: bool, follows: bool,
) -> Tensor:  # fmt: skip
    (rows, width), (owners, heads, capacity, size) = residual.shape, keys.shape
    context = residual.new_empty(rows, width, dtype=keys.dtype)
    projected_kernel[(rows, heads)](
        residual, layer.weight, layer.bias, norm.weight, norm.bias, keys, values, ancestry, lengths, context,
        width, heads, capacity, rows // owners, scale, norm.epsilon,
        SELF=is_self, ANCESTRY=follows, K=size, WIDTH=triton.next_power_of_2(width), BLOCK=BLOCK,
        num_warps=16 if is_self else 8, **options(keys.is_cuda),
    )  # fmt: skip
    return context
