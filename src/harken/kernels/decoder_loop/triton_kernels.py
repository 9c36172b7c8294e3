"""The Triton kernels of a decoder's loop: attention of one query a row, and the gates of an LSTM, forward and backward.

Their references are `harken.nn.attention.functional.Attention` with a score of `harken.nn.attention.scores`, and
`harken.nn.recurrent.lstm.LSTMCell.apply_gates`. One program computes one row of the batch: it reads the memory once,
with an online softmax, and saves only the scores (B, S) for the backward pass.
"""

from __future__ import annotations

from contextlib import suppress

from harken.kernels.additive_attention.forward import jit, reciprocal

with suppress(ImportError):  # on a machine without a GPU
    import triton.language as tl


@jit
def sigmoid(values: tl.tensor) -> tl.tensor:
    """1 / (1 + e^-x)."""
    return reciprocal(1.0 + tl.exp(-values))


@jit
def tanh(values: tl.tensor) -> tl.tensor:
    """1 - 2 / (1 + e^2x), which neither overflows nor turns into NaN."""
    return 1.0 - 2.0 * reciprocal(1.0 + tl.exp(2.0 * values))


@jit
def attention_kernel(
    query: tl.tensor,
    keys: tl.tensor,
    vector: tl.tensor,
    memory: tl.tensor,
    mask: tl.tensor,
    context: tl.tensor,
    scores: tl.tensor,
    log_sum: tl.tensor,
    sources: tl.tensor,
    depth: tl.tensor,
    width: tl.tensor,
    ADDITIVE: tl.constexpr,
    MASKED: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """e_s = score(q, k_s), c = sum_s softmax(e)_s h_s for one row: query (B, A), keys (B, S, A), memory (B, S, M)."""
    batch = tl.program_id(0).to(tl.int64)
    feature, wide = tl.arange(0, DEPTH), tl.arange(0, WIDTH)
    query_values = tl.load(query + batch * depth + feature, feature < depth, other=0.0).to(tl.float32)
    amount = query_values
    if ADDITIVE:
        amount = tl.load(vector + feature, feature < depth, other=0.0).to(tl.float32)
    peak = tl.full((1,), float("-inf"), tl.float32)
    total = tl.zeros((1,), tl.float32)
    mixed = tl.zeros((WIDTH,), tl.float32)
    for start in range(0, sources, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < sources)[:, None] & (feature < depth)[None, :]
        key = tl.load(keys + (batch * sources + row[:, None]) * depth + feature[None, :], inside, other=0.0)
        fit = key.to(tl.float32)
        if ADDITIVE:
            fit = tanh(fit + query_values[None, :])
        score = tl.sum(fit * amount[None, :], 1)
        valid = row < sources
        if MASKED:
            valid = valid & (tl.load(mask + batch * sources + row, valid, other=0) != 0)
        score = tl.where(valid, score, float("-inf"))
        tl.store(scores + batch * sources + row, score, row < sources)
        higher = tl.maximum(peak, tl.max(score, 0))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp(score - level)
        shrink = tl.exp(peak - level)
        total = total * shrink + tl.sum(share, 0)
        inside = (row < sources)[:, None] & (wide < width)[None, :]
        value = tl.load(memory + (batch * sources + row[:, None]) * width + wide[None, :], inside, other=0.0)
        mixed = mixed * shrink + tl.sum(share[:, None] * value.to(tl.float32), 0)
        peak = higher
    whole = tl.where(total == 0.0, 1.0, total)
    tl.store(context + batch * width + wide, (mixed / whole).to(context.dtype.element_ty), wide < width)
    tl.store(log_sum + batch + tl.arange(0, 1), tl.where(total == 0.0, float("inf"), peak + tl.log(whole)))


@jit
def attention_backward_kernel(
    grad_context: tl.tensor,
    query: tl.tensor,
    keys: tl.tensor,
    vector: tl.tensor,
    memory: tl.tensor,
    context: tl.tensor,
    scores: tl.tensor,
    log_sum: tl.tensor,
    grad_scores: tl.tensor,
    grad_query: tl.tensor,
    sources: tl.tensor,
    depth: tl.tensor,
    width: tl.tensor,
    ADDITIVE: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
    WIDTH: tl.constexpr,
) -> None:
    """From dc (B, M): de (B, S) and dq (B, A); gradients of keys and memory are computed for all steps at once."""
    batch = tl.program_id(0).to(tl.int64)
    feature, wide = tl.arange(0, DEPTH), tl.arange(0, WIDTH)
    gradient = tl.load(grad_context + batch * width + wide, wide < width, other=0.0).to(tl.float32)
    inner = tl.sum(gradient * tl.load(context + batch * width + wide, wide < width, other=0.0).to(tl.float32), 0)
    level = tl.load(log_sum + batch)
    query_values = tl.load(query + batch * depth + feature, feature < depth, other=0.0).to(tl.float32)
    amount = query_values
    if ADDITIVE:
        amount = tl.load(vector + feature, feature < depth, other=0.0).to(tl.float32)
    total = tl.zeros((DEPTH,), tl.float32)
    for start in range(0, sources, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < sources)[:, None] & (wide < width)[None, :]
        value = tl.load(memory + (batch * sources + row[:, None]) * width + wide[None, :], inside, other=0.0)
        from_weight = tl.sum(value.to(tl.float32) * gradient[None, :], 1)
        score = tl.load(scores + batch * sources + row, row < sources, other=float("-inf"))
        from_score = tl.exp(score - level) * (from_weight - inner)
        tl.store(grad_scores + batch * sources + row, from_score, row < sources)
        inside = (row < sources)[:, None] & (feature < depth)[None, :]
        key = tl.load(keys + (batch * sources + row[:, None]) * depth + feature[None, :], inside, other=0.0)
        derivative = key.to(tl.float32)
        if ADDITIVE:
            share = reciprocal(1.0 + tl.exp(2.0 * (derivative + query_values[None, :])))
            derivative = 4.0 * (share - share * share)
        total += tl.sum(from_score[:, None] * derivative, 0)
    if ADDITIVE:
        total = total * amount
    tl.store(grad_query + batch * depth + feature, total.to(grad_query.dtype.element_ty), feature < depth)


@jit
def before_gates(
    product: tl.tensor,
    token: tl.tensor,
    batch: tl.tensor,
    hidden: tl.tensor,
    unit: tl.tensor,
    stride_token: tl.tensor,
    TOKEN: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor, tl.tensor, tl.tensor]:
    """The pre-activations of i, f, g and o of these units: U h, plus the token's."""
    inside = unit < hidden
    at = product + batch * 4 * hidden + unit
    input_gate = tl.load(at, inside, other=0.0).to(tl.float32)
    forget_gate = tl.load(at + hidden, inside, other=0.0).to(tl.float32)
    candidate = tl.load(at + 2 * hidden, inside, other=0.0).to(tl.float32)
    output_gate = tl.load(at + 3 * hidden, inside, other=0.0).to(tl.float32)
    if TOKEN:
        at = token + batch * stride_token + unit
        input_gate += tl.load(at, inside, other=0.0).to(tl.float32)
        forget_gate += tl.load(at + hidden, inside, other=0.0).to(tl.float32)
        candidate += tl.load(at + 2 * hidden, inside, other=0.0).to(tl.float32)
        output_gate += tl.load(at + 3 * hidden, inside, other=0.0).to(tl.float32)
    return input_gate, forget_gate, candidate, output_gate


@jit
def lstm_step(
    input_gate: tl.tensor, forget_gate: tl.tensor, candidate: tl.tensor, output_gate: tl.tensor, cell: tl.tensor
) -> tuple[tl.tensor, tl.tensor]:
    """Pre-activations and C of some units -> the new C and h; also for `harken.kernels.decoding.cuda.recurrent`."""
    new = sigmoid(forget_gate) * cell + sigmoid(input_gate) * tanh(candidate)
    return new, sigmoid(output_gate) * tanh(new)


@jit
def lstm_kernel(
    product: tl.tensor,
    token: tl.tensor,
    cell: tl.tensor,
    hidden_out: tl.tensor,
    cell_out: tl.tensor,
    hidden: tl.tensor,
    stride_token: tl.tensor,
    TOKEN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Pre-activations (B, 4H) + (B, 4H) and C (B, H) -> h, C."""
    batch = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < hidden
    input_gate, forget_gate, candidate, output_gate = before_gates(
        product, token, batch, hidden, unit, stride_token, TOKEN
    )
    old = tl.load(cell + batch * hidden + unit, inside, other=0.0).to(tl.float32)
    new, shown = lstm_step(input_gate, forget_gate, candidate, output_gate, old)
    tl.store(cell_out + batch * hidden + unit, new.to(cell_out.dtype.element_ty), inside)
    tl.store(hidden_out + batch * hidden + unit, shown.to(hidden_out.dtype.element_ty), inside)


@jit
def lstm_backward_kernel(
    grad_hidden: tl.tensor,
    grad_cell: tl.tensor,
    product: tl.tensor,
    token: tl.tensor,
    cell: tl.tensor,
    product_out: tl.tensor,
    cell_out: tl.tensor,
    hidden: tl.tensor,
    stride_token: tl.tensor,
    HIDDEN: tl.constexpr,
    CELL: tl.constexpr,
    TOKEN: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Recomputes the gates, which is cheaper than saving them."""
    batch = tl.program_id(0).to(tl.int64)
    unit = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = unit < hidden
    input_gate, forget_gate, candidate, output_gate = before_gates(
        product, token, batch, hidden, unit, stride_token, TOKEN
    )
    input_gate, forget_gate, candidate, output_gate = (
        sigmoid(input_gate),
        sigmoid(forget_gate),
        tanh(candidate),
        sigmoid(output_gate),
    )
    here = batch * hidden + unit
    old = tl.load(cell + here, inside, other=0.0).to(tl.float32)
    tanh_cell = tanh(forget_gate * old + input_gate * candidate)
    from_hidden = tl.zeros((BLOCK,), tl.float32)
    from_cell = tl.zeros((BLOCK,), tl.float32)
    if HIDDEN:
        from_hidden = tl.load(grad_hidden + here, inside, other=0.0).to(tl.float32)
    if CELL:
        from_cell = tl.load(grad_cell + here, inside, other=0.0).to(tl.float32)
    from_cell += from_hidden * output_gate * (1.0 - tanh_cell * tanh_cell)
    kind = product_out.dtype.element_ty
    at = product_out + batch * 4 * hidden + unit
    tl.store(at, (from_cell * candidate * input_gate * (1.0 - input_gate)).to(kind), inside)
    tl.store(at + hidden, (from_cell * old * forget_gate * (1.0 - forget_gate)).to(kind), inside)
    tl.store(at + 2 * hidden, (from_cell * input_gate * (1.0 - candidate * candidate)).to(kind), inside)
    tl.store(at + 3 * hidden, (from_hidden * tanh_cell * output_gate * (1.0 - output_gate)).to(kind), inside)
    tl.store(cell_out + here, (from_cell * forget_gate).to(cell_out.dtype.element_ty), inside)
