"""The Triton kernels of the forward pass of `operator.py`; the reference is
`harken.nn.attention.functional.additive_attend_with_weights`.

tanh(q + k) = 1 - 2 r  and  1 - tanh(q + k)^2 = 4 r (1 - r)  with  r = 1 / (1 + e^{2q} e^{2k})

The exponentials belong to one query or one key each, so they are made once, outside the T x S x D work; inside, one
product and one reciprocal stand in for a tanh, exact to float32. The reciprocals of two neighbours cost one:
1/x = y (1/xy) and 1/y = x (1/xy), and a GPU's unit for reciprocals is the one that is short. Where a number is so large
that e^{2q} could overflow (|q| > WIDE), the exponents are added instead, at two such operations a tanh.

Shapes: G groups (batch x heads), T queries, S keys, D width, V width of the values; Tp, Sp, Dp: rounded up to whole
tiles, so that the inner loops need no bounds.
"""

from __future__ import annotations

import os
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # not installed; nothing calls these then
    triton = None

# Sizes that change from batch to batch: a kernel is not compiled again where one of them is 1 or a multiple of 16.
FREE = ["targets", "sources", "first", "all_targets", "length", "all_rows", "count", "vectors", "inner"]
FREE += ["mask_outer", "mask_inner", "mask_row"]


def jit(function: Any) -> Any:
    """`triton.jit`; the function unchanged where Triton is not installed."""
    return function if triton is None else triton.jit(function, do_not_specialize=FREE)


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

if INTERPRETED:

    @jit
    def reciprocal(values: tl.tensor) -> tl.tensor:
        """1 / x."""
        return 1.0 / values

else:

    @jit
    def reciprocal(values: tl.tensor) -> tl.tensor:
        """1 / x in one instruction, to one unit in the last digit."""
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [values], dtype=tl.float32, is_pure=True, pack=1
        )


@jit
def is_wide(largest: tl.tensor, limit: tl.constexpr) -> tl.tensor:
    """Whether any query or key is beyond what can be exponentiated on its own; `largest` holds both maxima."""
    return tl.maximum(tl.load(largest), tl.load(largest + 1)) > limit


@jit
def dropout_scale(
    seed: tl.tensor, drop: tl.tensor, group: tl.tensor, row: tl.tensor, column: tl.tensor, columns: tl.tensor
) -> tl.tensor:
    """Dropout: 1 / (1 - p) where a weight stays, 0 where it goes; the same for the same seed and position."""
    draw = tl.rand(tl.load(seed) + group, row[:, None] * columns + column[None, :])
    return tl.where(draw >= drop, 1.0 / (1.0 - drop), 0.0)


@jit
def exponential_kernel(
    values: tl.tensor,
    out: tl.tensor,
    largest: tl.tensor,
    length: tl.tensor,
    depth: tl.tensor,
    stride_group: tl.tensor,
    stride_row: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    TRANSPOSED: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """(G, T, D) -> e^{2q} as (G, Tp, Dp), or (G, Dp, Tp) where transposed; 2q / ln 2 itself where that is wide."""
    tiles_down, tiles_across = rows // ROWS, columns // COLUMNS
    group = (tl.program_id(0) // (tiles_down * tiles_across)).to(tl.int64)
    tile = tl.program_id(0) % (tiles_down * tiles_across)
    row = tile // tiles_across * ROWS + tl.arange(0, ROWS)
    column = tile % tiles_across * COLUMNS + tl.arange(0, COLUMNS)
    inside = (row < length)[:, None] & (column < depth)[None, :]
    at = values + group * stride_group + row[:, None].to(tl.int64) * stride_row + column[None, :]
    exponent = tl.load(at, mask=inside, other=0.0).to(tl.float32) * 2.8853900817779268  # 2 / ln 2
    exponentials = tl.where(is_wide(largest, LIMIT), exponent, tl.exp2(exponent))
    exponentials = tl.where(inside, exponentials, 0.0)
    base = out + group * rows * columns
    if TRANSPOSED:
        tl.store(base + column[:, None] * rows + row[None, :], tl.trans(exponentials))
    else:
        tl.store(base + row[:, None] * columns + column[None, :], exponentials)


@jit
def score_kernel(
    queries: tl.tensor,
    keys: tl.tensor,
    vector: tl.tensor,
    mask: tl.tensor,
    scores: tl.tensor,
    largest: tl.tensor,
    targets: tl.tensor,
    sources: tl.tensor,
    first: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    depth: tl.tensor,
    vectors: tl.tensor,
    inner: tl.tensor,
    mask_outer: tl.tensor,
    mask_inner: tl.tensor,
    mask_row: tl.tensor,
    mask_column: tl.tensor,
    MASKED: tl.constexpr,
    CAUSAL: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
) -> None:
    """e_ts = v^T tanh(q_t + k_s), -inf where hidden: one tile (ROWS, COLUMNS) of one group.

    Queries (G, Dp, Tp) and keys (G, Dp, Sp) come exponentiated; `first` is the position of the first query in the whole
    sequence, for the causal rule.
    """
    across = columns // COLUMNS
    tiles = rows // ROWS * across
    group = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    row = tile // across * ROWS + tl.arange(0, ROWS)
    column = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    visible = (row < targets)[:, None] & (column < sources)[None, :]
    if CAUSAL:
        visible = visible & (column[None, :] <= first + row[:, None])
    if MASKED:
        at = mask + group // inner * mask_outer + group % inner * mask_inner
        at = at + row[:, None].to(tl.int64) * mask_row + column[None, :].to(tl.int64) * mask_column
        visible = visible & (tl.load(at, mask=visible, other=0) != 0)
    here = scores + group * rows * columns + row[:, None] * columns + column[None, :]
    # Nothing is read here, as no row is below 0; but a load tells the compiler to hand each thread a patch of the tile,
    # and with a patch of 8 x 4 it reads 12 numbers for 32 products where a column would read 33.
    score = tl.load(here, mask=visible & (row < 0)[:, None], other=0.0)
    if tl.max(tl.max(visible.to(tl.int32), 1), 0) > 0:
        query = queries + group * depth * rows + row
        key = keys + group * depth * columns + column
        weight = vector + group % vectors * depth
        total = 0.0
        if is_wide(largest, LIMIT):
            for at_depth in range(depth):
                amount = tl.load(weight + at_depth)
                left, right = tl.load(query + at_depth * rows), tl.load(key + at_depth * columns)
                total += amount
                score += amount * reciprocal(1.0 + tl.exp2(left[:, None] + right[None, :]))
        else:
            for at_depth in range(0, depth, 2):
                amount, other_amount = tl.load(weight + at_depth), tl.load(weight + at_depth + 1)
                left, right = tl.load(query + at_depth * rows), tl.load(key + at_depth * columns)
                other_left = tl.load(query + (at_depth + 1) * rows)
                other_right = tl.load(key + (at_depth + 1) * columns)
                below = left[:, None] * right[None, :] + 1.0
                other_below = other_left[:, None] * other_right[None, :] + 1.0
                above = amount * other_below + other_amount * below
                total += amount + other_amount
                score += above * reciprocal(below * other_below)
        score = total - 2.0 * score
    score = tl.where(visible, score, float("-inf"))
    tl.store(here, score)


@jit
def context_kernel(
    scores: tl.tensor,
    values: tl.tensor,
    context: tl.tensor,
    exact: tl.tensor,
    log_sum: tl.tensor,
    seed: tl.tensor,
    drop: tl.tensor,
    targets: tl.tensor,
    sources: tl.tensor,
    width: tl.tensor,
    first: tl.tensor,
    all_targets: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    KEEPS: tl.constexpr,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """softmax(scores) V by an online softmax, for one tile (ROWS, WIDTH) of the contexts; `log_sum` is log-sum-exp.

    With KEEPS, the contexts also go to `exact` in float32, for the backward pass.
    """
    across = tl.cdiv(width, WIDTH)
    tiles = rows // ROWS * across
    group = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    row = tile // across * ROWS + tl.arange(0, ROWS)
    feature = tile % across * WIDTH + tl.arange(0, WIDTH)
    peak = tl.full((ROWS,), float("-inf"), tl.float32)
    sum_ = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, WIDTH), tl.float32)
    for start in range(0, columns, COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        at = scores + group * rows * columns + row[:, None] * columns + column[None, :]
        score = tl.load(at)
        inside = (column < sources)[:, None] & (feature < width)[None, :]
        value = tl.load(
            values + group * sources * width + column[:, None].to(tl.int64) * width + feature[None, :],
            mask=inside,
            other=0.0,
        )
        higher = tl.maximum(peak, tl.max(score, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)  # a row that has seen nothing yet
        share = tl.exp(score - level[:, None])
        shrink = tl.exp(peak - level)
        sum_ = sum_ * shrink + tl.sum(share, 1)
        if DROPS:
            share = share * dropout_scale(seed, drop, group, first + row, column, columns)
        mixed = mixed * shrink[:, None] + tl.dot(share.to(value.dtype), value, input_precision=PRECISION)
        peak = higher
    empty = sum_ == 0.0
    whole = tl.where(empty, 1.0, sum_)
    at = group * all_targets + first + row
    inside = (row < targets)[:, None] & (feature < width)[None, :]
    mixed = mixed / whole[:, None]
    here = at[:, None] * width + feature[None, :]
    tl.store(context + here, mixed.to(context.dtype.element_ty), inside)
    if KEEPS:
        tl.store(exact + here, mixed, inside)
    if tile % across == 0:  # +inf makes every weight of an empty row 0
        tl.store(log_sum + at, tl.where(empty, float("inf"), peak + tl.log(whole)), row < targets)
