"""Layer norm with what comes before it: the embedding of a token, or a residual connection.

    embed      x = scale E[token] + p[position]        h = norm(x) or x
    add_norm   x' = x + change    h = norm(x')           the norm first ("pre")
               x' = norm(x + change)    h = x'           the norm last ("post")

x is kept in float32, h has the dtype of the matrix products. One program computes one row.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from harken.kernels.decoding.cuda import attention
from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.description import Norm
from harken.kernels.triton_import import tl, triton


@triton.jit
def normalise(
    values: tl.tensor, weight: tl.tensor, bias: tl.tensor, feature: tl.tensor, width: tl.tensor, epsilon: tl.tensor
) -> tl.tensor:
    """Layer norm of one row in float32, zeros beyond its width."""
    inside = feature < width
    centred = tl.where(inside, values - tl.sum(values, 0) / width, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / width + epsilon)
    gain = tl.load(weight + feature, inside, other=0.0).to(tl.float32)
    shift = tl.load(bias + feature, inside, other=0.0).to(tl.float32)
    return centred * scale * gain + shift


@triton.jit
def embed_kernel(
    tokens: tl.tensor,
    table: tl.tensor,
    positions: tl.tensor,
    position: tl.tensor,
    residual: tl.tensor,
    width: tl.tensor,
    scale: tl.tensor,
    POSITIONS: tl.constexpr,
    WIDTH: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """x of one row: table (V, D), positions (T, D) in float32."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, feature = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside = feature < width
    token = tl.load(tokens + row)
    values = tl.load(table + token * width + feature, inside, other=0.0).to(tl.float32) * scale
    if POSITIONS:
        values += tl.load(positions + tl.load(position) * width + feature, inside, other=0.0)
    tl.store(residual + row * width + feature, values, inside)


@triton.jit
def add_norm_kernel(
    residual: tl.tensor,
    change: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    out: tl.tensor,
    width: tl.tensor,
    epsilon: tl.tensor,
    ADD: tl.constexpr,
    PRE: tl.constexpr,
    WIDTH: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row."""
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, feature = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside, offset = feature < width, row * width + feature
    values = tl.load(residual + offset, inside, other=0.0)
    if ADD:
        values += tl.load(change + offset, inside, other=0.0).to(tl.float32)
    normed = normalise(values, weight, bias, feature, width, epsilon)
    if ADD:
        tl.store(residual + offset, values if PRE else normed, inside)
    tl.store(out + offset, normed.to(out.dtype.element_ty), inside)


def embed(
    tokens: Tensor, table: Tensor, scale: float, positions: Tensor | None, position: Tensor, residual: Tensor
) -> None:
    """Writes x (R, D), float32, of tokens (R,) at position (1,)."""
    rows, width = residual.shape
    if not attention.is_fused(residual):
        values = F.embedding(tokens, table).float() * scale
        residual.copy_(values if positions is None else values + positions.index_select(0, position))
        return
    embed_kernel[(rows,)](
        tokens, table, table if positions is None else positions, position, residual, width, scale,
        POSITIONS=positions is not None, WIDTH=triton.next_power_of_2(width), num_warps=4, **options(residual.is_cuda),
    )  # fmt: skip


def add_norm(residual: Tensor, change: Tensor | None, norm: Norm, pre: bool, like: Tensor) -> Tensor:
    """Updates x (R, D) in place and returns h (R, D) in the dtype of `like`; without a change x stays."""
    rows, width = residual.shape
    assert norm.bias is not None
    if not attention.is_fused(residual):
        if change is not None:
            residual.add_(change)
        normed = F.layer_norm(residual, (width,), norm.weight.float(), norm.bias.float(), norm.epsilon)
        if change is not None and not pre:
            residual.copy_(normed)
        return normed.to(like.dtype)
    out = residual.new_empty(rows, width, dtype=like.dtype)
    add_norm_kernel[(rows,)](
        residual, residual if change is None else change, norm.weight, norm.bias, out, width, norm.epsilon,
        ADD=change is not None, PRE=pre, WIDTH=triton.next_power_of_2(width), num_warps=4, **options(residual.is_cuda),
    )  # fmt: skip
    return out
