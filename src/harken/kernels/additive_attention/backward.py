"""The Triton kernels of the backward pass of additive attention; see `forward.py` for the names.

a = softmax(e),  da = dc V^T,  de = a (da - sum_s a da)           `score_gradient_kernel`
dV = a^T dc                                                       `value_kernel`
dq_t = sum_s de_ts v (1 - tanh^2),  dk_s the same over t          `fold_kernel`, once for each
dv = sum_ts de_ts tanh                                            inside the first of those two

Every sum runs in one program in one order, so the same bits come out twice.
"""

from __future__ import annotations

from contextlib import suppress

from harken.kernels.additive_attention.forward import dropout_scale, is_wide, jit, reciprocal

with suppress(ImportError):  # on a machine without a GPU
    import triton.language as tl


@jit
def inner_kernel(
    grad_output: tl.tensor,
    context: tl.tensor,
    inner: tl.tensor,
    count: tl.tensor,
    width: tl.tensor,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """sum_s a da = dc . c: (M, V), (M, V) -> (M,)."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    total = tl.zeros((ROWS,), tl.float32)
    for start in range(0, width, WIDTH):
        feature = start + tl.arange(0, WIDTH)
        at = row[:, None] * width + feature[None, :]
        inside = (row < count)[:, None] & (feature < width)[None, :]
        left = tl.load(grad_output + at, inside, other=0.0).to(tl.float32)
        total += tl.sum(left * tl.load(context + at, inside, other=0.0).to(tl.float32), 1)
    tl.store(inner + row, total, row < count)


@jit
def score_gradient_kernel(
    scores: tl.tensor,
    log_sum: tl.tensor,
    inner: tl.tensor,
    grad_output: tl.tensor,
    values: tl.tensor,
    out: tl.tensor,
    seed: tl.tensor,
    drop: tl.tensor,
    targets: tl.tensor,
    sources: tl.tensor,
    width: tl.tensor,
    first: tl.tensor,
    all_targets: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """de = a (dc V^T - inner): one tile (ROWS, COLUMNS); 0 at hidden positions and beyond the end."""
    across = columns // COLUMNS
    tiles = rows // ROWS * across
    group = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    row = tile // across * ROWS + tl.arange(0, ROWS)
    column = tile % across * COLUMNS + tl.arange(0, COLUMNS)
    at = group * all_targets + first + row
    from_weights = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, width, WIDTH):
        feature = start + tl.arange(0, WIDTH)
        left = tl.load(
            grad_output + at[:, None] * width + feature[None, :],
            (row < targets)[:, None] & (feature < width)[None, :],
            other=0.0,
        )
        right = tl.load(
            values + group * sources * width + column[None, :].to(tl.int64) * width + feature[:, None],
            (column < sources)[None, :] & (feature < width)[:, None],
            other=0.0,
        )
        from_weights = tl.dot(left, right, from_weights, input_precision=PRECISION)
    here = group * rows * columns + row[:, None] * columns + column[None, :]
    level = tl.load(log_sum + at, row < targets, other=float("inf"))
    share = tl.exp(tl.load(scores + here) - level[:, None])
    if DROPS:
        from_weights = from_weights * dropout_scale(seed, drop, group, first + row, column, columns)
    mean = tl.load(inner + at, row < targets, other=0.0)
    tl.store(out + here, share * (from_weights - mean[:, None]))


@jit
def value_kernel(
    scores: tl.tensor,
    log_sum: tl.tensor,
    grad_output: tl.tensor,
    out: tl.tensor,
    seed: tl.tensor,
    drop: tl.tensor,
    targets: tl.tensor,
    sources: tl.tensor,
    width: tl.tensor,
    first: tl.tensor,
    all_targets: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """dV = a^T dc: one tile (COLUMNS, WIDTH)."""
    across = tl.cdiv(width, WIDTH)
    tiles = columns // COLUMNS * across
    group = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    column = tile // across * COLUMNS + tl.arange(0, COLUMNS)
    feature = tile % across * WIDTH + tl.arange(0, WIDTH)
    total = tl.zeros((COLUMNS, WIDTH), tl.float32)
    for start in range(0, rows, ROWS):
        row = start + tl.arange(0, ROWS)
        at = group * all_targets + first + row
        level = tl.load(log_sum + at, row < targets, other=float("inf"))
        here = group * rows * columns + row[:, None] * columns + column[None, :]
        share = tl.exp(tl.load(scores + here) - level[:, None])
        if DROPS:
            share = share * dropout_scale(seed, drop, group, first + row, column, columns)
        right = tl.load(
            grad_output + at[:, None] * width + feature[None, :],
            (row < targets)[:, None] & (feature < width)[None, :],
            other=0.0,
        )
        total = tl.dot(tl.trans(share).to(right.dtype), right, total, input_precision=PRECISION)
    inside = (column < sources)[:, None] & (feature < width)[None, :]
    at_value = out + group * sources * width + column[:, None].to(tl.int64) * width + feature[None, :]
    tl.store(at_value, total.to(out.dtype.element_ty), inside)


@jit
def fold_kernel(
    own: tl.tensor,
    other: tl.tensor,
    grad_scores: tl.tensor,
    vector: tl.tensor,
    out: tl.tensor,
    vector_out: tl.tensor,
    largest: tl.tensor,
    length: tl.tensor,
    width: tl.tensor,
    rows: tl.tensor,
    others: tl.tensor,
    depth: tl.tensor,
    vectors: tl.tensor,
    stride_own: tl.tensor,
    stride_other: tl.tensor,
    first: tl.tensor,
    all_rows: tl.tensor,
    VECTOR: tl.constexpr,
    SPARSE: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """out_xd = v_d sum_y de_xy (1 - tanh^2(own_xd + other_yd)): one tile (ROWS, DEPTH), all y in turn.

    `own` (G, Xp, Dp) and `other` (G, Yp, Dp) come exponentiated. With VECTOR, dv of this tile goes to `vector_out`
    (G, Xp / ROWS, Dp). With SPARSE, blocks of y whose gradients are all 0 are skipped: padding costs nothing.
    """
    across = depth // DEPTH
    tiles = rows // ROWS * across
    group = (tl.program_id(0) // tiles).to(tl.int64)
    tile = tl.program_id(0) % tiles
    row = tile // across * ROWS + tl.arange(0, ROWS)
    feature = tile % across * DEPTH + tl.arange(0, DEPTH)
    mine = tl.load(own + group * rows * depth + row[:, None].to(tl.int64) * depth + feature[None, :])
    wide = is_wide(largest, LIMIT)
    total = tl.zeros((ROWS, DEPTH), tl.float32)
    plain = tl.zeros((ROWS, DEPTH), tl.float32)  # sum_y de r: what the vector's gradient needs
    gradients = grad_scores + group * rows * others + row * stride_own
    theirs = other + group * others * depth + feature
    for start in range(0, others, BLOCK):
        needed = True
        if SPARSE:
            span = start + tl.arange(0, BLOCK)
            block = tl.load(gradients[:, None] + span[None, :] * stride_other)
            needed = tl.max(tl.max(tl.abs(block), 1), 0) > 0.0
        if needed:
            if wide:
                for step in range(BLOCK):
                    at = start + step
                    gradient = tl.load(gradients + at * stride_other)[:, None]
                    share = reciprocal(1.0 + tl.exp2(mine + tl.load(theirs + at * depth)[None, :]))
                    total += gradient * (share - share * share)
                    if VECTOR:
                        plain += gradient * share
            else:
                for step in range(0, BLOCK, 2):
                    at = start + step
                    gradient = tl.load(gradients + at * stride_other)[:, None]
                    other_gradient = tl.load(gradients + (at + 1) * stride_other)[:, None]
                    below = mine * tl.load(theirs + at * depth)[None, :] + 1.0
                    other_below = mine * tl.load(theirs + (at + 1) * depth)[None, :] + 1.0
                    both = reciprocal(below * other_below)
                    share, other_share = both * other_below, both * below
                    total += gradient * (share - share * share)
                    total += other_gradient * (other_share - other_share * other_share)
                    if VECTOR:
                        plain += gradient * share
                        plain += other_gradient * other_share
    amount = tl.load(vector + group % vectors * depth + feature)
    at_out = out + (group * all_rows + first + row[:, None]) * width + feature[None, :]
    inside = (row < length)[:, None] & (feature < width)[None, :]
    tl.store(at_out, (4.0 * amount[None, :] * total).to(out.dtype.element_ty), inside)
    if VECTOR:
        base = vector_out + (group * (rows // ROWS) + tile // across) * depth
        tl.store(base + feature, -2.0 * tl.sum(plain, 0))
