"""The Triton kernels of `operator.py`; the reference is `harken.nn.attention.packed.packed_attend_reference`.

A row of packed tokens holds many short sentences, so the keys that a tile of queries sees are one short interval around
the tile: from the first key of its first sentence to the last key of its last. A program walks that interval in tiles
of keys with the online softmax of FlashAttention (Dao et al., 2022) and masks key by key inside. The gradients of keys
and values use the inverse intervals, from a key to the queries that see it, so there are no atomics and results are
deterministic.

Shapes: T queries, S keys, N heads, K head width; HEAD is K rounded up to a power of two.
"""

from __future__ import annotations

from harken.kernels.triton_import import tl, triton

LOG2_E = 1.4426950408889634
_LOG2_E = tl.constexpr(LOG2_E) if hasattr(tl, "dot") else LOG2_E
_FAR = tl.constexpr(2**30) if hasattr(tl, "dot") else 2**30


@triton.jit
def interval(
    first: tl.tensor, end: tl.tensor, rows: tl.tensor, inside: tl.tensor
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """Intervals of some rows and their union, which is empty where all of them are."""
    low = tl.load(first + rows, mask=inside, other=0)
    high = tl.load(end + rows, mask=inside, other=0)
    filled = inside & (low < high)
    start = tl.min(tl.where(filled, low, _FAR), 0)
    stop = tl.max(tl.where(filled, high, 0), 0)
    return low, high, start, stop


@triton.jit
def forward_kernel(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    log_sum: tl.tensor,
    first_key: tl.tensor,
    end_key: tl.tensor,
    scale: tl.tensor,
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    num_queries: tl.tensor,
    num_keys: tl.tensor,
    WIDTH: tl.constexpr,
    HEAD: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """One tile of queries of one head -> contexts (T, N, K) and the log-sum-exp of the scores (N, T), base 2."""
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < num_queries
    features = tl.arange(0, HEAD)
    real = features < WIDTH
    low, high, start, stop = interval(first_key, end_key, rows, inside)
    at = rows[:, None].to(tl.int64) * query_stride + head * WIDTH + features[None, :]
    q = tl.load(query + at, mask=inside[:, None] & real[None, :], other=0.0)
    peak = tl.full([ROWS], -1.0e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    context = tl.zeros([ROWS, HEAD], tl.float32)
    for begin in range(start, stop, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        there = columns < stop
        where = columns[:, None].to(tl.int64) * key_stride + head * WIDTH + features[None, :]
        k = tl.load(key + where, mask=there[:, None] & real[None, :], other=0.0)
        v = tl.load(value + where, mask=there[:, None] & real[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2_E)
        visible = (columns[None, :] >= low[:, None]) & (columns[None, :] < high[:, None])
        scores = tl.where(visible, scores, -1.0e30)
        higher = tl.maximum(peak, tl.max(scores, 1))
        weights = tl.where(visible, tl.exp2(scores - higher[:, None]), 0.0)
        fade = tl.exp2(peak - higher)
        total = total * fade + tl.sum(weights, 1)
        context = context * fade[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        peak = higher
    nonzero = tl.where(total > 0.0, total, 1.0)
    context = context / nonzero[:, None]
    to = rows[:, None].to(tl.int64) * (heads * WIDTH) + head * WIDTH + features[None, :]
    tl.store(out + to, context.to(out.dtype.element_ty), mask=inside[:, None] & real[None, :])
    tl.store(log_sum + head * num_queries + rows, peak + tl.log2(nonzero), mask=inside)


@triton.jit
def query_gradient_kernel(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    out: tl.tensor,
    grad_out: tl.tensor,
    log_sum: tl.tensor,
    inner: tl.tensor,
    grad_query: tl.tensor,
    first_key: tl.tensor,
    end_key: tl.tensor,
    scale: tl.tensor,
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    grad_stride: tl.tensor,
    num_queries: tl.tensor,
    num_keys: tl.tensor,
    WIDTH: tl.constexpr,
    HEAD: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """The gradient of a tile of queries; also `inner` (N, T), the products of contexts with their gradients."""
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = rows < num_queries
    features = tl.arange(0, HEAD)
    real = features < WIDTH
    low, high, start, stop = interval(first_key, end_key, rows, inside)
    both = inside[:, None] & real[None, :]
    at = rows[:, None].to(tl.int64) * query_stride + head * WIDTH + features[None, :]
    to = rows[:, None].to(tl.int64) * (heads * WIDTH) + head * WIDTH + features[None, :]
    q = tl.load(query + at, mask=both, other=0.0)
    o = tl.load(out + to, mask=both, other=0.0).to(tl.float32)
    do = tl.load(grad_out + to, mask=both, other=0.0)
    product = tl.sum(o * do.to(tl.float32), 1)
    tl.store(inner + head * num_queries + rows, product, mask=inside)
    lse = tl.load(log_sum + head * num_queries + rows, mask=inside, other=0.0)
    dq = tl.zeros([ROWS, HEAD], tl.float32)
    for begin in range(start, stop, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        there = columns < stop
        where = columns[:, None].to(tl.int64) * key_stride + head * WIDTH + features[None, :]
        k = tl.load(key + where, mask=there[:, None] & real[None, :], other=0.0)
        v = tl.load(value + where, mask=there[:, None] & real[None, :], other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2_E)
        visible = (columns[None, :] >= low[:, None]) & (columns[None, :] < high[:, None])
        weights = tl.where(visible, tl.exp2(scores - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision=PRECISION)
        ds = weights * (dp - product[:, None])
        dq += tl.dot(ds.to(k.dtype), k, input_precision=PRECISION)
    back = rows[:, None].to(tl.int64) * grad_stride + head * WIDTH + features[None, :]
    tl.store(grad_query + back, (dq * scale).to(grad_query.dtype.element_ty), mask=both)


@triton.jit
def key_gradient_kernel(
    query: tl.tensor,
    key: tl.tensor,
    value: tl.tensor,
    grad_out: tl.tensor,
    log_sum: tl.tensor,
    inner: tl.tensor,
    grad_key: tl.tensor,
    grad_value: tl.tensor,
    first_key: tl.tensor,
    end_key: tl.tensor,
    first_query: tl.tensor,
    end_query: tl.tensor,
    scale: tl.tensor,
    query_stride: tl.tensor,
    key_stride: tl.tensor,
    grad_stride: tl.tensor,
    num_queries: tl.tensor,
    num_keys: tl.tensor,
    WIDTH: tl.constexpr,
    HEAD: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:
    """The gradients of a tile of keys and values, over the queries that see them."""
    head = tl.program_id(1)
    heads = tl.num_programs(1)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = columns < num_keys
    features = tl.arange(0, HEAD)
    real = features < WIDTH
    both = there[:, None] & real[None, :]
    _, _, start, stop = interval(first_query, end_query, columns, there)
    where = columns[:, None].to(tl.int64) * key_stride + head * WIDTH + features[None, :]
    k = tl.load(key + where, mask=both, other=0.0)
    v = tl.load(value + where, mask=both, other=0.0)
    dk = tl.zeros([COLUMNS, HEAD], tl.float32)
    dv = tl.zeros([COLUMNS, HEAD], tl.float32)
    for begin in range(start, stop, ROWS):
        rows = begin + tl.arange(0, ROWS)
        inside = rows < stop
        low = tl.load(first_key + rows, mask=inside, other=0)
        high = tl.load(end_key + rows, mask=inside, other=0)
        at = rows[:, None].to(tl.int64) * query_stride + head * WIDTH + features[None, :]
        to = rows[:, None].to(tl.int64) * (heads * WIDTH) + head * WIDTH + features[None, :]
        q = tl.load(query + at, mask=inside[:, None] & real[None, :], other=0.0)
        do = tl.load(grad_out + to, mask=inside[:, None] & real[None, :], other=0.0)
        lse = tl.load(log_sum + head * num_queries + rows, mask=inside, other=0.0)
        product = tl.load(inner + head * num_queries + rows, mask=inside, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * _LOG2_E)  # (COLUMNS, ROWS)
        visible = (columns[:, None] >= low[None, :]) & (columns[:, None] < high[None, :])
        weights = tl.where(visible, tl.exp2(scores - lse[None, :]), 0.0)
        dv += tl.dot(weights.to(do.dtype), do, input_precision=PRECISION)
        dp = tl.dot(v, tl.trans(do), input_precision=PRECISION)
        ds = weights * (dp - product[None, :])
        dk += tl.dot(ds.to(q.dtype), q, input_precision=PRECISION)
    back = columns[:, None].to(tl.int64) * grad_stride + head * WIDTH + features[None, :]
    tl.store(grad_key + back, (dk * scale).to(grad_key.dtype.element_ty), mask=both)
    tl.store(grad_value + back, dv.to(grad_value.dtype.element_ty), mask=both)
