# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="assignment"
"""All steps of a recurrent layer in one launch on a GPU, both directions at once.

A program has BH units of one direction and BB rows of the batch, and holds its slice of U on the chip for the whole
sequence. Programs of the same direction and rows meet in `harken.kernels.recurrent.triton.product`, once a step (a GRU
with its reset before the product: twice), and in `harken.kernels.recurrent.triton.norm` where U h, or C, is normalised.
Step s of a row is time s, read backwards it is time length - 1 - s: every row starts at its own first step and ends at
its own last one; after that it keeps its state.

Shapes: W x + b (T, B, D, gates, H), U (D, gates, H, H), y (T, B, D, H), states (D, B, H), where D is directions. What
is exchanged (y, or h * keep, and reset * h) was filled with the sentinel beforehand; where a row has no step, it is
0 in the end.
Reference: `harken.nn.recurrent.unroll.unroll_padded`.
"""

from __future__ import annotations

from harken.kernels.recurrent.triton.norm import gains_of, keep_norm, normalised, one_by_one
from harken.kernels.recurrent.triton.product import (
    avoid_sentinel,
    held_weights,
    product,
    product_of,
    tiles_of,
    wait_product,
    wait_tiles,
)
from harken.kernels.recurrent.triton.tiles import (
    clear,
    gates_of,
    keep_gates,
    lstm_forward,
    offsets,
    peepholes,
    rnn_forward,
    sigmoid,
    tanh,
    zoneout,
)
from harken.kernels.triton_import import tl, triton


@triton.jit
def forward_step(
    step,
    hidden,
    cell,
    products,  # U h, gate by gate; where they are made late, the first gate's and what to make the others of
    inputs,  # W x + b, gate by gate
    limit,
    here,  # row, length, direction, unit, inside, block of units
    held,
    update_held,
    candidate_held,
    keep_mask,
    peeps,
    norm,  # exchange buffers, what is kept for the backward pass, gains; empty where nothing is normalised
    from_input,
    stay_hidden,
    stay_cell,
    y,
    dropped,
    reset_seen,
    saved,
    previous,
    B,
    H: tl.constexpr,
    zone,
    OPTIONS: tl.constexpr,
    NORM: tl.constexpr,
    PLAN: tl.constexpr,
):
    """One step of this program's units and rows; W x + b of the next is on its way meanwhile."""
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    SAVED: tl.constexpr = OPTIONS[2]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    ZONE: tl.constexpr = OPTIONS[5]
    SAVE: tl.constexpr = OPTIONS[6]
    R: tl.constexpr = OPTIONS[7]
    REVERSE: tl.constexpr = OPTIONS[8]
    LATE: tl.constexpr = KIND == "gru_before" and NORM[0] == 0 and PLAN[5] >= PLAN[4]
    LSTM: tl.constexpr = KIND == "lstm" or KIND == "coupled"
    row, length, direction, unit, inside, block = here
    offset, start = offsets(step, row, length, direction, B, H, unit, D, REVERSE)
    runs, runs_on = step < length, step + 1 < length
    now = inside & runs[:, None]
    _, next_start = offsets(step + 1, row, length, direction, B, H, unit, D, REVERSE)
    next_inputs = gates_of(from_input, next_start, unit, inside & runs_on[:, None], H, GATES)

    if LATE:
        a, tiles = products
        b, c, d = a, a, a
    else:
        a, b, c, d = products
    i, j, k, o = inputs
    at = start // H  # which row of (T, B, D)
    if NORM[0] > 0:
        exchange, inner_exchange, normals, scales, gains, inner_gain, inner_shift = norm
        normal, scale, limit = normalised((a, b, c, d), inside, exchange, at, block, runs, limit, H, R, NORM, PLAN)
        a, b, c, d = one_by_one(normal * gains, R)
    old_hidden, old_cell = hidden, cell
    first, second, third, fourth = hidden, hidden, hidden, hidden
    if LSTM:
        if KIND == "lstm":
            first, second, third, fourth, cell, hidden = lstm_forward(
                a + i, b + j, c + k, d + o, cell, peeps[0], peeps[1], peeps[2], KIND
            )
        else:
            fourth, first, second, third, cell, hidden = lstm_forward(
                a, a + i, b + j, c + k, cell, peeps[0], peeps[1], peeps[2], KIND
            )
        if NORM[0] > 0:
            inner, inner_scale, limit = normalised(
                (cell,), inside, inner_exchange, at, block, runs, limit, H, 1, NORM, PLAN
            )
            output_gate = fourth if KIND == "lstm" else third
            seen_cell, _, _, _ = one_by_one(inner, 1)
            hidden = output_gate * tanh(seen_cell * inner_gain + inner_shift)
        cell = zoneout(old_cell, cell, stay_cell, zone, offset, now, ZONE)
    elif KIND == "gru":
        first = sigmoid(a + i)
        second = sigmoid(b + j)
        fourth = c + peeps[0]
        third = tanh(k + first * fourth)
        hidden = third + second * (hidden - third)
    elif KIND == "gru_before":
        first = sigmoid(a + i)
        reset_hidden = first * hidden * keep_mask if KEEP else first * hidden
        tl.store(reset_seen + offset, avoid_sentinel(reset_hidden, reset_seen), mask=now)
        if LATE:  # z is not needed before the candidate: it is made while r h is on its way
            b, _, _, _ = product_of(update_held, tiles, 1, PLAN)
        second = sigmoid(b + j)
        e, _, _, _, limit = wait_product(
            candidate_held, reset_seen, reset_seen, start, start, runs, 0, H, limit, 1, False, 1, PLAN
        )
        if NORM[0] > 0:
            inner, inner_scale, limit = normalised(
                (e,), inside, inner_exchange, at, block, runs, limit, H, 1, NORM, PLAN
            )
            e, _, _, _ = one_by_one(inner * inner_gain[:, :, None], 1)
        third = tanh(k + e)
        hidden = hidden + second * (third - hidden)
    else:
        hidden = rnn_forward(a + i, KIND)
        first = hidden
    hidden = zoneout(old_hidden, hidden, stay_hidden, zone, offset, now, ZONE)
    hidden = tl.where(now, hidden, old_hidden)
    cell = tl.where(now, cell, old_cell)
    if KEEP:
        tl.store(dropped + offset, avoid_sentinel(hidden * keep_mask, dropped), mask=now)
    tl.store(y + offset, avoid_sentinel(hidden, y), mask=now)
    if SAVE:
        keep_gates(saved, start, unit, now, H, (first, second, third, fourth), SAVED, SAVED, False)
        if LSTM:
            tl.store(previous + offset, old_cell, mask=now)
        elif GATES == 3:
            tl.store(previous + offset, old_hidden, mask=now)
        if NORM[0] > 0:
            keep_norm(normals, scales, at, unit, now, runs, block, normal, scale, H, 0, NORM[2], NORM[3])
            if NORM[3] > NORM[2]:
                keep_norm(normals, scales, at, unit, now, runs, block, inner, inner_scale, H, NORM[2], 1, NORM[3])
    if LATE:
        tiles, limit = wait_tiles(dropped, start, runs_on, limit, H, PLAN)
        a, _, _, _ = product_of(held, tiles, 1, PLAN)
        next_products = (a, tiles)
    else:
        a, b, c, d, limit = wait_product(held, dropped, dropped, start, start, runs_on, 0, H, limit, 1, False, R, PLAN)
        next_products = (a, b, c, d)
    return hidden, cell, next_products, next_inputs, limit


@triton.jit
def forward_kernel(
    from_input,
    weight,
    first_seen,  # (D, B, H): what the products of the first step see
    hidden_first,
    cell_first,
    extra,  # peepholes (D, 2 or 3, H), or the second bias of a GRU's candidate (D, H)
    keep,  # recurrent dropout (D, B, H)
    stay_hidden,  # zoneout (T, B, D, H)
    stay_cell,
    lengths,
    y,
    dropped,  # y, or h * keep
    reset_seen,
    hidden_last,
    cell_last,
    saved,  # (T, B, D, saved gates, H)
    previous,  # (T, B, D, H): the C, or the h of a GRU, that a step began with
    gain,  # (D, ROWS, H): of the gates, of the inner norm, and C's shift
    exchange,  # (T, B, D, blocks, R, 2)
    inner_exchange,
    normals,  # (T, B, D, norms, H): what was normalised
    scales,  # (T, B, D, norms): and by how much
    ok_flag,
    T,
    B,
    H: tl.constexpr,
    zone,
    limit,
    EXTRA: tl.constexpr,
    STATE: tl.constexpr,
    ROWS: tl.constexpr,
    OPTIONS: tl.constexpr,  # kind, gates, saved gates, D, keep, zone, save, gate rows, reverse
    NORM: tl.constexpr,
    PLAN: tl.constexpr,
):
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    R: tl.constexpr = OPTIONS[7]
    REVERSE: tl.constexpr = OPTIONS[8]
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    IN_REGISTERS: tl.constexpr = PLAN[7]
    LSTM: tl.constexpr = KIND == "lstm" or KIND == "coupled"
    blocks = tl.cdiv(H, BH)
    first_unit = tl.program_id(0) % blocks * BH
    direction = tl.program_id(0) // blocks % D
    row = tl.program_id(0) // blocks // D * BB + tl.arange(0, BB)
    unit = first_unit + tl.arange(0, BH)
    inside = (row < B)[:, None] & (unit < H)[None, :]
    length = tl.load(lengths + row, mask=row < B, other=0)
    steps = tl.max(length, 0)
    of_state = ((direction * B + row) * H)[:, None] + unit[None, :]  # (BB, BH)

    weight += direction.to(tl.int64) * GATES * H * H
    LATE: tl.constexpr = KIND == "gru_before" and NORM[0] == 0 and PLAN[5] >= PLAN[4]
    if LATE:
        held = held_weights(weight, first_unit, H * H, H, 1, H, 1, 1, PLAN)
        update_held = held_weights(weight + H * H, first_unit, H * H, H, 1, H, 1, 1, PLAN)
    else:
        GATES_AT_ONCE: tl.constexpr = 2 if KIND == "gru_before" else GATES
        held = held_weights(weight, first_unit, H * H, H, 1, H, GATES_AT_ONCE, R, PLAN)
        update_held = held
    candidate_held = held
    if KIND == "gru_before":
        candidate_held = held_weights(weight + 2 * H * H, first_unit, H * H, H, 1, H, 1, 1, PLAN)

    hidden = tl.zeros((BB, BH), tl.float32)
    cell = tl.zeros((BB, BH), tl.float32)
    a, b, c, d = hidden, hidden, hidden, hidden
    if STATE:
        hidden = tl.load(hidden_first + of_state, mask=inside, other=0.0).to(tl.float32)
        if LSTM:
            cell = tl.load(cell_first + of_state, mask=inside, other=0.0).to(tl.float32)
        if not LATE:
            start = (direction * B + row).to(tl.int64) * H
            a, b, c, d = product(held, first_seen, start, row < B, H, R, PLAN)
    keep_mask = tl.zeros((BB, BH), tl.float32)
    if KEEP:
        keep_mask = tl.load(keep + of_state, mask=inside, other=0.0).to(tl.float32)
    peeps = peepholes(extra, direction, unit, H, KIND, EXTRA)

    norm = ()
    if NORM[0] > 0:
        gains, inner_gain, inner_shift = gains_of(gain, direction, unit, H, ROWS, NORM)
        norm = (exchange, inner_exchange, normals, scales, gains, inner_gain, inner_shift)

    here = (row, length, direction, unit, inside, tl.program_id(0) % blocks)
    _, start = offsets(0, row, length, direction, B, H, unit, D, REVERSE)
    products = (a, b, c, d)
    if LATE:
        from_state = (direction * B + row).to(tl.int64) * H
        tiles = tiles_of(first_seen, from_state, row < B if STATE else row < 0, H, PLAN)
        a, _, _, _ = product_of(held, tiles, 1, PLAN)
        products = (a, tiles)
    inputs = gates_of(from_input, start, unit, inside & (length > 0)[:, None], H, GATES)
    # the compiler keeps what a `while` uses in registers, what a `for` uses in shared memory
    if IN_REGISTERS:
        step = 0
        while step < steps:
            hidden, cell, products, inputs, limit = forward_step(
                step, hidden, cell, products, inputs, limit, here, held, update_held, candidate_held, keep_mask, peeps,
                norm, from_input, stay_hidden, stay_cell, y, dropped, reset_seen, saved, previous, B, H, zone, OPTIONS,
                NORM, PLAN,
            )  # fmt: skip
            step += 1
    else:
        for step in range(steps):
            hidden, cell, products, inputs, limit = forward_step(
                step, hidden, cell, products, inputs, limit, here, held, update_held, candidate_held, keep_mask, peeps,
                norm, from_input, stay_hidden, stay_cell, y, dropped, reset_seen, saved, previous, B, H, zone, OPTIONS,
                NORM, PLAN,
            )  # fmt: skip

    tl.store(hidden_last + of_state, hidden.to(hidden_last.dtype.element_ty), mask=inside)
    if LSTM:
        tl.store(cell_last + of_state, cell, mask=inside)
    clear(y, 1, row, length, direction, T, B, H, unit, inside, D)
    if KEEP:
        clear(dropped, 1, row, length, direction, T, B, H, unit, inside, D)
    if KIND == "gru_before":
        clear(reset_seen, 1, row, length, direction, T, B, H, unit, inside, D)
    if limit == 1:
        tl.store(ok_flag, 0)
