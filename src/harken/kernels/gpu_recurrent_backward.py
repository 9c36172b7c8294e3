# mypy: allow-untyped-defs, allow-incomplete-defs
"""The gradients of all steps of a recurrent layer in one launch on a GPU, last step first.

A program has the units and rows it has in `harken.kernels.gpu_recurrent_forward`, and holds the columns of U that lead
to its units. It carries the gradients of its part of the state in registers; at each step it turns them into gradients
of its gates, writes these where they are wanted afterwards, in the gradient of W x + b, and reads there what the other
programs wrote: U^T times all gates is what reaches h of the step before. Weight gradients are products over all steps,
made after the launch.
"""

from __future__ import annotations

from harken.kernels.gpu_recurrent_forward import clear, gates_of, peepholes, places
from harken.kernels.gpu_recurrent_gates import lstm_backward, rnn_backward
from harken.kernels.gpu_recurrent_product import awaited_product, exchanged, held_weights
from harken.kernels.gpu_triton import tl, triton


@triton.jit
def shared_out(gradient, stay, zone, place, mask, ZONE: tl.constexpr):
    """The gradient of a zoned state -> of the new one, of the old one."""
    if ZONE == 0:
        return gradient, tl.zeros_like(gradient)
    elif ZONE == 1:
        return gradient * (1.0 - zone), gradient * zone
    else:
        stays = tl.load(stay + place, mask=mask, other=0) != 0
        return tl.where(stays, 0.0, gradient), tl.where(stays, gradient, 0.0)


@triton.jit
def held_columns(weight, first_unit, H: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, PLAN: tl.constexpr):
    """The columns of gates FIRST to LAST of U that lead to this program's units, last gate first."""
    held = ()
    for gate in tl.static_range(FIRST, LAST):
        held = held + held_weights(weight + (FIRST + LAST - 1 - gate) * H * H, first_unit, 0, 1, H, H, 1, 1, PLAN)
    return held


@triton.jit
def backward_step(
    step,
    d_hidden,
    d_cell,
    d_first_peep,
    d_second_peep,
    d_third_peep,
    i,  # the gates of this step
    j,
    k,
    o,
    before,  # the C, or h, that it began with
    from_above,
    limit,
    here,
    held,
    candidate_held,
    kept,
    peeps,
    d_y,
    stay_hidden,
    stay_cell,
    saved,
    previous,
    d_input,
    d_product,
    B,
    H: tl.constexpr,
    zone,
    OPTIONS: tl.constexpr,
    PLAN: tl.constexpr,
):
    """One step back of this program's units and rows; what the next one reads is on its way meanwhile."""
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    SAVED: tl.constexpr = OPTIONS[2]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    ZONE: tl.constexpr = OPTIONS[5]
    PEEP: tl.constexpr = OPTIONS[6]
    REVERSE: tl.constexpr = OPTIONS[7]
    LSTM: tl.constexpr = KIND == "lstm" or KIND == "coupled"
    row, length, direction, unit, inside = here
    place, start = places(step, row, length, direction, B, H, unit, D, REVERSE)
    runs = step < length
    now = inside & runs[:, None]
    next_place, next_start = places(step - 1, row, length, direction, B, H, unit, D, REVERSE)
    next_now = inside & ((step <= length) & (length * 0 < step))[:, None]  # two tensors: what the interpreter takes
    next_i, next_j, next_k, next_o = gates_of(saved, next_start, unit, next_now, H, SAVED)
    next_before = tl.load(previous + next_place, mask=next_now, other=0.0) if GATES > 1 else before
    next_above = tl.load(d_y + next_place, mask=next_now, other=0.0)

    into = d_input + (start * GATES)[:, None] + unit[None, :]
    d_new, d_old = shared_out(d_hidden + from_above.to(tl.float32), stay_hidden, zone, place, now, ZONE)
    w = i.to(tl.float32)
    x = j.to(tl.float32)
    y = k.to(tl.float32)
    z = o.to(tl.float32)
    d_before = d_cell
    if LSTM:
        d_kept, d_stays = shared_out(d_cell, stay_cell, zone, place, now, ZONE)
        if KIND == "lstm":
            d_w, d_x, d_candidate, d_z, d_before, after = lstm_backward(
                d_new, d_kept, w, x, y, z, before, peeps[0], peeps[1], peeps[2], KIND
            )
            tl.store(into, exchanged(d_w, d_input), mask=now)
            tl.store(into + H, exchanged(d_x, d_input), mask=now)
            tl.store(into + 2 * H, exchanged(d_candidate, d_input), mask=now)
            tl.store(into + 3 * H, exchanged(d_z, d_input), mask=now)
        else:
            d_w, d_x, d_candidate, d_z, d_before, after = lstm_backward(
                d_new, d_kept, w, w, x, y, before, peeps[0], peeps[1], peeps[2], KIND
            )
            tl.store(into, exchanged(d_x, d_input), mask=now)
            tl.store(into + H, exchanged(d_candidate, d_input), mask=now)
            tl.store(into + 2 * H, exchanged(d_z, d_input), mask=now)
        d_before += d_stays
        if PEEP:
            d_first_peep += tl.where(now, d_w * before, 0.0)
            d_second_peep += tl.where(now, d_x * before, 0.0)
            d_third_peep += tl.where(now, d_z * after, 0.0)
    elif KIND == "gru":
        d_candidate = d_new * (1.0 - x) * (1.0 - y * y)
        d_update = d_new * (before - y) * x * (1.0 - x)
        d_reset = d_candidate * z * w * (1.0 - w)
        tl.store(into, exchanged(d_reset, d_input), mask=now)
        tl.store(into + H, exchanged(d_update, d_input), mask=now)
        tl.store(d_product + place, exchanged(d_candidate * w, d_product), mask=now)
        tl.store(into + 2 * H, exchanged(d_candidate, d_input), mask=now)
        d_old += d_new * x
    elif KIND == "gru_before":
        d_candidate = d_new * x * (1.0 - y * y)
        tl.store(into + 2 * H, exchanged(d_candidate, d_input), mask=now)
        d_update = d_new * (y - before) * x * (1.0 - x)
        tl.store(into + H, exchanged(d_update, d_input), mask=now)
        d_shown, _, _, _, limit = awaited_product(
            candidate_held, d_input + 2 * H, d_input, start * GATES, start, runs, 0, H, limit, 1, False, 1, PLAN
        )
        if KEEP:
            d_shown *= kept
        tl.store(into, exchanged(d_shown * before * w * (1.0 - w), d_input), mask=now)
        d_old += d_new * (1.0 - x) + d_shown * w
    else:
        tl.store(into, exchanged(rnn_backward(d_new, w, KIND), d_input), mask=now)

    SEGMENTS: tl.constexpr = 2 if KIND == "gru_before" else GATES
    reached, _, _, _, limit = awaited_product(
        held, d_input, d_product, start * GATES, start, runs, H, H, limit, SEGMENTS, KIND == "gru", 1, PLAN
    )
    if KEEP:
        reached *= kept
    d_hidden = tl.where(now, reached + d_old, d_hidden)
    d_cell = tl.where(now, d_before, d_cell)
    return (
        d_hidden, d_cell, d_first_peep, d_second_peep, d_third_peep,
        next_i, next_j, next_k, next_o, next_before, next_above, limit,
    )  # fmt: skip


@triton.jit
def backward_kernel(
    d_y,  # (T, B, D, H)
    d_hidden_last,  # (D, B, H)
    d_cell_last,
    weight,
    extra,
    keep,
    stay_hidden,
    stay_cell,
    lengths,
    saved,
    previous,
    d_input,  # (T, B, D, gates, H)
    d_product,  # (T, B, D, H): gradient of U h of a GRU's candidate, reset after
    d_hidden_first,
    d_cell_first,
    d_extra,  # (row blocks, D, 3, H)
    fine,
    T,
    B,
    H: tl.constexpr,
    zone,
    limit,
    EXTRA: tl.constexpr,
    OPTIONS: tl.constexpr,  # kind, gates, saved gates, D, keep, zone, peepholes, reverse
    PLAN: tl.constexpr,
):
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    SAVED: tl.constexpr = OPTIONS[2]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    PEEP: tl.constexpr = OPTIONS[6]
    REVERSE: tl.constexpr = OPTIONS[7]
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    IN_REGISTERS: tl.constexpr = PLAN[7]
    LSTM: tl.constexpr = KIND == "lstm" or KIND == "coupled"
    blocks = tl.cdiv(H, BH)
    first_unit = tl.program_id(0) % blocks * BH
    direction = tl.program_id(0) // blocks % D
    row_block = tl.program_id(0) // blocks // D
    row = row_block * BB + tl.arange(0, BB)
    unit = first_unit + tl.arange(0, BH)
    inside = (row < B)[:, None] & (unit < H)[None, :]
    length = tl.load(lengths + row, mask=row < B, other=0)
    steps = tl.max(length, 0)
    of_state = ((direction * B + row) * H)[:, None] + unit[None, :]

    weight += direction.to(tl.int64) * GATES * H * H
    if KIND == "gru_before":
        held = held_columns(weight, first_unit, H, 0, 2, PLAN)
        candidate_held = held_columns(weight, first_unit, H, 2, 3, PLAN)
    else:
        held = held_columns(weight, first_unit, H, 0, GATES, PLAN)
        candidate_held = held

    d_hidden = tl.load(d_hidden_last + of_state, mask=inside, other=0.0).to(tl.float32)
    d_cell = tl.zeros((BB, BH), tl.float32)
    if LSTM:
        d_cell = tl.load(d_cell_last + of_state, mask=inside, other=0.0)
    kept = tl.zeros((BB, BH), tl.float32)
    if KEEP:
        kept = tl.load(keep + of_state, mask=inside, other=0.0).to(tl.float32)
    peeps = peepholes(extra, direction, unit, H, KIND, EXTRA)
    p = tl.zeros((BB, BH), tl.float32)
    q, r = p, p  # gradients of the peepholes

    here = (row, length, direction, unit, inside)
    place, start = places(steps - 1, row, length, direction, B, H, unit, D, REVERSE)
    now = inside & (steps - 1 < length)[:, None]
    i, j, k, o = gates_of(saved, start, unit, now, H, SAVED)
    before = tl.load(previous + place, mask=now, other=0.0) if GATES > 1 else d_cell
    above = tl.load(d_y + place, mask=now, other=0.0)
    # as in the forward kernel: registers, or shared memory
    if IN_REGISTERS:
        step = steps - 1
        while step >= 0:
            d_hidden, d_cell, p, q, r, i, j, k, o, before, above, limit = backward_step(
                step, d_hidden, d_cell, p, q, r, i, j, k, o, before, above, limit, here, held, candidate_held, kept,
                peeps, d_y, stay_hidden, stay_cell, saved, previous, d_input, d_product, B, H, zone, OPTIONS, PLAN,
            )  # fmt: skip
            step -= 1
    else:
        for back in range(steps):
            d_hidden, d_cell, p, q, r, i, j, k, o, before, above, limit = backward_step(
                steps - 1 - back, d_hidden, d_cell, p, q, r, i, j, k, o, before, above, limit, here, held,
                candidate_held, kept, peeps, d_y, stay_hidden, stay_cell, saved, previous, d_input, d_product, B, H,
                zone, OPTIONS, PLAN,
            )  # fmt: skip

    tl.store(d_hidden_first + of_state, d_hidden.to(d_hidden_first.dtype.element_ty), mask=inside)
    if LSTM:
        tl.store(d_cell_first + of_state, d_cell, mask=inside)
    clear(d_input, GATES, row, length, direction, T, B, H, unit, inside, D)
    if KIND == "gru":
        clear(d_product, 1, row, length, direction, T, B, H, unit, inside, D)
    if PEEP:
        sums = d_extra + ((row_block * D + direction) * 3) * H + unit
        tl.store(sums, tl.sum(p, 0), mask=unit < H)
        tl.store(sums + H, tl.sum(q, 0), mask=unit < H)
        tl.store(sums + 2 * H, tl.sum(r, 0), mask=unit < H)
    if limit == 1:
        tl.store(fine, 0)
