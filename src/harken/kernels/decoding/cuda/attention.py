"""Attention of one query a row and head, to the row's own prefix or to its source.

    c = sum_t softmax_t(q . k_t / sqrt(K)) v_t

Self-attention writes the key and value of the current token into slot `position` of the row's cache and attends to the
slots before it. When hypotheses change places, the cache stays: slot t of row r's prefix is in row ancestry[r, t]. So
reordering costs R x T small integers in place of all keys and values. Only slots that are in use are read.

`attend_reference` is the same in plain operators.
"""

from __future__ import annotations

import math
import os

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.settings import has_triton
from harken.kernels.triton_import import tl, triton

INTERPRETED = has_triton() and os.environ.get("TRITON_INTERPRET") == "1"
BLOCK = 16  # slots read at a time
WARPS = 1  # of a program: with 512 rows 1.5 to 1.8 times as fast as two


@triton.jit
def attend_slots(
    query: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    ancestry: tl.tensor,
    row: tl.tensor,
    owner: tl.tensor,
    head: tl.tensor,
    length: tl.tensor,
    heads: tl.tensor,
    capacity: tl.tensor,
    peak: tl.tensor,
    total: tl.tensor,
    mixed: tl.tensor,
    feature: tl.tensor,
    ANCESTRY: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
) -> tl.tensor:
    """The context (K,) of a query after what it has attended to: the largest score, the sum, the weighted values."""
    for first in range(0, length, BLOCK):
        time = first + tl.arange(0, BLOCK)
        valid = time < length
        if ANCESTRY:
            rows = tl.load(ancestry + row * capacity + time, valid, other=0).to(tl.int64)
        else:
            rows = owner + tl.zeros((BLOCK,), tl.int64)
        offset = (((rows * heads + head) * capacity + time) * K)[:, None] + feature[None, :]
        key = tl.load(keys + offset, valid[:, None], other=0.0).to(tl.float32)
        contents = tl.load(values + offset, valid[:, None], other=0.0).to(tl.float32)
        score = tl.where(valid, tl.sum(key * query[None, :], 1), float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 0))
        share, shrink = tl.exp(score - higher), tl.exp(peak - higher)
        total = total * shrink + tl.sum(share, 0)
        mixed = mixed * shrink + tl.sum(share[:, None] * contents, 0)
        peak = higher
    return mixed / total


@triton.jit
def attention_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    ancestry: tl.tensor,
    lengths: tl.tensor,
    context: tl.tensor,
    stride: tl.tensor,
    width: tl.tensor,
    heads: tl.tensor,
    capacity: tl.tensor,
    beam: tl.tensor,
    scale: tl.tensor,
    SELF: tl.constexpr,
    ANCESTRY: tl.constexpr,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row and head; queries (R, stride), caches (rows, N, T, K), ancestry (R, T), context (R, D).

    Lengths: the position (1,) of the current token, or the lengths (B,) of the sources.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    feature = tl.arange(0, K)
    start = queries + row * stride + head * K + feature
    query = tl.load(start).to(tl.float32) * scale
    owner = row
    if SELF:
        length = tl.load(lengths).to(tl.int32)
        own_key, own_value = tl.load(start + width), tl.load(start + 2 * width)
        slot = ((row * heads + head) * capacity + length) * K + feature
        tl.store(keys + slot, own_key.to(keys.dtype.element_ty))
        tl.store(values + slot, own_value.to(values.dtype.element_ty))
        peak = tl.sum(query * own_key.to(tl.float32), 0)
        total = tl.full((), 1.0, tl.float32)
        mixed = own_value.to(tl.float32)
    else:
        owner = row // beam
        length = tl.load(lengths + owner).to(tl.int32)
        peak, total = tl.full((), float("-inf"), tl.float32), tl.full((), 0.0, tl.float32)
        mixed = tl.zeros((K,), tl.float32)
    mixed = attend_slots(
        query, keys, values, ancestry, row, owner, head, length, heads, capacity, peak, total, mixed, feature,
        ANCESTRY, K, BLOCK,
    )  # fmt: skip
    out = context + row * width + head * K + feature
    tl.store(out, mixed.to(context.dtype.element_ty))


def self_attention(
    qkv: Tensor, keys: Tensor, values: Tensor, ancestry: Tensor | None, position: Tensor, scale: float
) -> Tensor:
    """Queries, keys and values (R, 3D) of the current tokens -> (R, D); writes the caches (R, N, T, K).

    Args:
        ancestry: (R, T) int32, the row that slot t of each row's prefix is in; None: always its own.
        position: (1,) slot of the current token.
    """
    (rows, heads, capacity, size), width = keys.shape, qkv.shape[1] // 3
    if not is_fused(qkv):
        return attend_reference(qkv, keys, values, ancestry, position, scale)
    context = qkv.new_empty(rows, width)
    attention_kernel[(rows, heads)](
        qkv, keys, values, position if ancestry is None else ancestry, position, context,
        3 * width, width, heads, capacity, 1, scale,
        SELF=True, ANCESTRY=ancestry is not None, K=size, BLOCK=BLOCK, num_warps=WARPS, **options(keys.is_cuda),
    )  # fmt: skip
    return context


def cross_attention(queries: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, scale: float) -> Tensor:
    """Queries (R, D) to keys and values (B, N, S, K) of sources with lengths (B,) -> (R, D)."""
    (rows, width), (sources, heads, capacity, size) = queries.shape, keys.shape
    beam = rows // sources
    if not is_fused(queries):
        valid = torch.arange(capacity, device=keys.device) < lengths[:, None]
        per_head = queries.view(sources, beam, heads, size).transpose(1, 2).float()
        contexts = _attend(per_head, keys.float(), values.float(), valid[:, None, None], scale)  # (B, N, beam, K)
        return contexts.transpose(1, 2).reshape(rows, width).to(queries.dtype)
    context = torch.empty_like(queries)
    attention_kernel[(rows, heads)](
        queries, keys, values, lengths, lengths, context, width, width, heads, capacity, beam, scale,
        SELF=False, ANCESTRY=False, K=size, BLOCK=BLOCK, num_warps=WARPS, **options(keys.is_cuda),
    )  # fmt: skip
    return context


def attend_reference(
    qkv: Tensor, keys: Tensor, values: Tensor, ancestry: Tensor | None, position: Tensor, scale: float
) -> Tensor:
    """`self_attention` in plain operators."""
    rows, heads, capacity, size = keys.shape
    query, key, value = qkv.view(rows, 3, heads, 1, size).unbind(1)
    keys.index_copy_(2, position, key.to(keys.dtype))
    values.index_copy_(2, position, value.to(values.dtype))
    time = torch.arange(capacity, device=keys.device)
    if ancestry is not None:
        own = torch.arange(rows, device=keys.device)[:, None]
        owners = torch.where(time == position, own, ancestry)  # (R, T)
        keys, values = (part.transpose(1, 2)[owners, time].transpose(1, 2) for part in (keys, values))
    valid = (time <= position)[None, None, None]
    return _attend(query.float(), keys.float(), values.float(), valid, scale).reshape(rows, -1).to(qkv.dtype)


def _attend(query: Tensor, keys: Tensor, values: Tensor, valid: Tensor, scale: float) -> Tensor:
    scores = (query @ keys.transpose(2, 3) * scale).masked_fill(~valid, -math.inf)
    return torch.softmax(scores, -1) @ values


def is_fused(values: Tensor) -> bool:
    """Whether the kernels run: on a GPU, and on a CPU in Triton's interpreter."""
    return values.is_cuda or INTERPRETED
