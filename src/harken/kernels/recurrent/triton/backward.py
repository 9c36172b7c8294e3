# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="assignment,misc"
"""The gradients of all steps of a recurrent layer in one launch on a GPU, last step first.

A program has the units and rows it has in `harken.kernels.recurrent.triton.forward`, and holds the columns of U that
lead to its units. It carries the gradients of its part of the state in registers; at each step it turns them into
gradients of its gates, writes these where they are needed afterwards, in the gradient of W x + b, and reads there what
the other programs wrote: U^T times all gates is what reaches h of the step before. Where U h is normalised, its
gradient is not that of W x + b, and goes into a tensor of its own. Weight gradients are products over all steps, made
after the launch; those of peepholes and gains are summed up on the way.
"""

from __future__ import annotations

from harken.kernels.recurrent.triton.norm import gains_of, kept_norm, norm_backward, one_by_one, side_by_side
from harken.kernels.recurrent.triton.product import avoid_sentinel, held_weights, wait_product
from harken.kernels.recurrent.triton.tiles import (
    clear,
    gates_of,
    keep_gates,
    lstm_backward,
    offsets,
    peepholes,
    rnn_backward,
    tanh,
)
from harken.kernels.triton_import import tl, triton


@triton.jit
def zoneout_backward(gradient, stay, zone, offset, mask, ZONE: tl.constexpr):
    """The gradient of a zoned state -> of the new one, of the old one."""
    if ZONE == 0:
        return gradient, tl.zeros_like(gradient)
    elif ZONE == 1:
        return gradient * (1.0 - zone), gradient * zone
    else:
        stays = tl.load(stay + offset, mask=mask, other=0) != 0
        return tl.where(stays, 0.0, gradient), tl.where(stays, gradient, 0.0)


@triton.jit
def held_columns(weight, first_unit, H: tl.constexpr, FIRST: tl.constexpr, LAST: tl.constexpr, PLAN: tl.constexpr):
    """The columns of gates FIRST to LAST of U that lead to this program's units, last gate first."""
    held = ()
    for gate in tl.static_range(FIRST, LAST):
        held = held + held_weights(weight + (FIRST + LAST - 1 - gate) * H * H, first_unit, 0, 1, H, H, 1, 1, PLAN)
    return held


@triton.jit
def kept_of(
    step, here, sources, B, H: tl.constexpr, OPTIONS: tl.constexpr, NORM: tl.constexpr
):  # sources: gates, states before, d_y, what was normalised, its scales
    """Load what was saved of a step, and d_y: (four gates, the C or h that it began with, d_y), its norms."""
    row, length, direction, unit, inside, _ = here
    saved, previous, d_y, normals, scales = sources
    offset, start = offsets(step, row, length, direction, B, H, unit, OPTIONS[3], OPTIONS[7])
    runs = (step < length) & (length * 0 <= step)  # two tensors: what the interpreter takes
    now = inside & runs[:, None]
    i, j, k, o = gates_of(saved, start, unit, now, H, OPTIONS[2])
    above = tl.load(d_y + offset, mask=now, other=0.0)
    before = tl.load(previous + offset, mask=now, other=0.0) if OPTIONS[1] > 1 else tl.zeros(inside.shape, tl.float32)
    normed = ()
    if NORM[0] > 0:
        normed = kept_norm(normals, scales, start // H, unit, now, runs, H, NORM)
    return (i, j, k, o, before, above), normed


@triton.jit
def backward_step(
    step,
    d_hidden,
    d_cell,
    sums,  # gradients of peepholes, or of a GRU's inner bias
    norm_sums,  # and of gains
    data,  # what was kept of this step
    normed,
    limit,
    here,
    sources,
    held,
    reset_held,
    candidate_held,
    keep_mask,
    peeps,
    norm,  # exchange buffers, gains; empty where nothing is normalised
    stay_hidden,
    stay_cell,
    d_input,
    d_product,
    B,
    H: tl.constexpr,
    zone,
    OPTIONS: tl.constexpr,
    NORM: tl.constexpr,
    PLAN: tl.constexpr,
):
    """One step back of this program's units and rows; what the next one reads is on its way meanwhile."""
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    ZONE: tl.constexpr = OPTIONS[5]
    PEEP: tl.constexpr = OPTIONS[6]
    REVERSE: tl.constexpr = OPTIONS[7]
    R: tl.constexpr = NORM[4]
    LSTM: tl.constexpr = KIND == "lstm" or KIND == "coupled"
    row, length, direction, unit, inside, block = here
    offset, start = offsets(step, row, length, direction, B, H, unit, D, REVERSE)
    runs = step < length
    now = inside & runs[:, None]
    next_data, next_normed = kept_of(step - 1, here, sources, B, H, OPTIONS, NORM)

    i, j, k, o, before, above = data
    into = d_input + (start * GATES)[:, None] + unit[None, :]
    at = start // H  # which row of (T, B, D)
    target = d_input  # of the gradients that the product sees
    if NORM[0] > 0:
        target = d_product
        exchange, inner_exchange, gains, inner_gain, inner_shift = norm
        normal = normed[0].to(tl.float32)
    d_new, d_old = zoneout_backward(d_hidden + above.to(tl.float32), stay_hidden, zone, offset, now, ZONE)
    w = i.to(tl.float32)
    x = j.to(tl.float32)
    y = k.to(tl.float32)
    z = o.to(tl.float32)
    d_before = d_cell
    if LSTM:
        d_kept, d_stays = zoneout_backward(d_cell, stay_cell, zone, offset, now, ZONE)
        input_gate, forget, candidate, output_gate = w, x, y, z
        if KIND == "coupled":
            input_gate, forget, candidate, output_gate = 1.0 - w, w, x, y
        after = forget * before + input_gate * candidate
        tanh_input = after
        if NORM[0] > 0:
            inner = normed[2].to(tl.float32)
            tanh_input = inner * inner_gain + inner_shift
        tanh_cell = tanh(tanh_input)
        d_output_gate = d_new * tanh_cell * output_gate * (1.0 - output_gate)
        d_seen = d_new * output_gate * (1.0 - tanh_cell * tanh_cell)
        if NORM[0] > 0:
            d_gains, d_inner_gain, d_inner_shift = norm_sums
            d_inner_gain += tl.where(now, d_seen * inner, 0.0)
            d_inner_shift += tl.where(now, d_seen, 0.0)
            norm_sums = (d_gains, d_inner_gain, d_inner_shift)
            d_inner, limit = norm_backward(
                (d_seen * inner_gain)[:, :, None], inner[:, :, None], normed[3][:, None],
                inside, inner_exchange, at, block, runs, limit, H, NORM, PLAN,
            )  # fmt: skip
            d_seen, _, _, _ = one_by_one(d_inner, 1)
        d_input_gate, d_forget, d_candidate, d_before = lstm_backward(
            d_output_gate, d_kept + d_seen, input_gate, forget, candidate, before, peeps[0], peeps[1], peeps[2], KIND
        )
        gates = (d_input_gate, d_forget, d_candidate, d_output_gate)
        if KIND == "coupled":
            gates = (d_forget, d_candidate, d_output_gate, d_input_gate)
        if NORM[0] == 0:
            keep_gates(d_input, start, unit, now, H, gates, GATES, GATES, True)
        d_before += d_stays
        if PEEP:
            p, q, r = sums
            p += tl.where(now, d_input_gate * before, 0.0)
            q += tl.where(now, d_forget * before, 0.0)
            r += tl.where(now, d_output_gate * after, 0.0)
            sums = (p, q, r)
    elif KIND == "gru":
        d_candidate = d_new * (1.0 - x) * (1.0 - y * y)
        d_update = d_new * (before - y) * x * (1.0 - x)
        d_reset = d_candidate * z * w * (1.0 - w)
        gates = (d_reset, d_update, d_candidate * w, d_reset)
        keep_gates(d_input, start, unit, now, H, gates, 2, GATES, True)
        if NORM[0] == 0:
            tl.store(d_product + offset, avoid_sentinel(d_candidate * w, d_product), mask=now)
        elif PEEP:
            p, q, r = sums
            p += tl.where(now, d_candidate * w, 0.0)
            sums = (p, q, r)
        tl.store(into + 2 * H, avoid_sentinel(d_candidate, d_input), mask=now)
        d_old += d_new * x
    elif KIND == "gru_before":
        d_candidate = d_new * x * (1.0 - y * y)
        tl.store(into + 2 * H, avoid_sentinel(d_candidate, d_input), mask=now)
        d_update = d_new * (y - before) * x * (1.0 - x)
        tl.store(into + H, avoid_sentinel(d_update, d_input), mask=now)
        if NORM[0] > 0:
            inner = normed[2].to(tl.float32)
            d_gains, d_inner_gain, d_inner_shift = norm_sums
            d_inner_gain += tl.where(now, d_candidate * inner, 0.0)
            norm_sums = (d_gains, d_inner_gain, d_inner_shift)
            d_inner, limit = norm_backward(
                (d_candidate * inner_gain)[:, :, None], inner[:, :, None], normed[3][:, None],
                inside, inner_exchange, at, block, runs, limit, H, NORM, PLAN,
            )  # fmt: skip
            d_inner, _, _, _ = one_by_one(d_inner, 1)
            tl.store(
                target + (start * GATES + 2 * H)[:, None] + unit[None, :], avoid_sentinel(d_inner, target), mask=now
            )
        d_reset_hidden, _, _, _, limit = wait_product(
            candidate_held, target + 2 * H, target, start * GATES, start, runs, 0, H, limit, 1, False, 1, PLAN
        )
        if KEEP:
            d_reset_hidden *= keep_mask
        d_reset = d_reset_hidden * before * w * (1.0 - w)
        gates = (d_reset, d_update, d_reset, d_reset)
        tl.store(into, avoid_sentinel(d_reset, d_input), mask=now)
        d_old += d_new * (1.0 - x) + d_reset_hidden * w
    else:
        d_first = rnn_backward(d_new, w, KIND)
        gates = (d_first, d_first, d_first, d_first)
        tl.store(into, avoid_sentinel(d_first, d_input), mask=now)

    if NORM[0] > 0:
        d_normal = side_by_side(gates, R)
        d_products, limit = norm_backward(
            d_normal * gains, normal, normed[1], inside, exchange, at, block, runs, limit, H, NORM, PLAN
        )
        keep_gates(target, start, unit, now, H, one_by_one(d_products, R), NORM[2], GATES, True)
        # nobody waits for the rest
        d_gains, d_inner_gain, d_inner_shift = norm_sums
        d_gains += tl.where(now[:, :, None], d_normal * normal, 0.0)
        norm_sums = (d_gains, d_inner_gain, d_inner_shift)
        if LSTM:
            keep_gates(d_input, start, unit, now, H, gates, GATES, GATES, True)
    if KIND == "gru_before":
        # z was written before the wait for the candidate, so that it is multiplied while r is still on its way
        by_update, _, _, _, limit = wait_product(
            held, target + H, target, start * GATES, start, runs, 0, H, limit, 1, False, 1, PLAN
        )
        reached, _, _, _, limit = wait_product(
            reset_held, target, target, start * GATES, start, runs, 0, H, limit, 1, False, 1, PLAN
        )
        reached += by_update
    else:
        APART: tl.constexpr = KIND == "gru" and NORM[0] == 0
        reached, _, _, _, limit = wait_product(
            held, target, d_product, start * GATES, start, runs, H, H, limit, GATES, APART, 1, PLAN
        )
    if KEEP:
        reached *= keep_mask
    d_hidden = tl.where(now, reached + d_old, d_hidden)
    d_cell = tl.where(now, d_before, d_cell)
    return d_hidden, d_cell, sums, norm_sums, next_data, next_normed, limit


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
    d_product,  # gradient of U h where it is another: (T, B, D, H) of a GRU's candidate, (T, B, D, gates, H) with norms
    d_hidden_first,
    d_cell_first,
    d_extra,  # (row blocks, D, 3, H)
    gain,
    exchange,
    inner_exchange,
    normals,
    scales,
    d_gain,  # (row blocks, D, ROWS, H)
    ok_flag,
    T,
    B,
    H: tl.constexpr,
    zone,
    limit,
    EXTRA: tl.constexpr,
    ROWS: tl.constexpr,
    OPTIONS: tl.constexpr,  # kind, gates, saved gates, D, keep, zone, peepholes, reverse
    NORM: tl.constexpr,
    PLAN: tl.constexpr,
):
    KIND: tl.constexpr = OPTIONS[0]
    GATES: tl.constexpr = OPTIONS[1]
    D: tl.constexpr = OPTIONS[3]
    KEEP: tl.constexpr = OPTIONS[4]
    PEEP: tl.constexpr = OPTIONS[6]
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    R: tl.constexpr = NORM[4]
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
        reset_held = held_columns(weight, first_unit, H, 0, 1, PLAN)
        held = held_columns(weight, first_unit, H, 1, 2, PLAN)
        candidate_held = held_columns(weight, first_unit, H, 2, 3, PLAN)
    else:
        held = held_columns(weight, first_unit, H, 0, GATES, PLAN)
        reset_held, candidate_held = held, held

    d_hidden = tl.load(d_hidden_last + of_state, mask=inside, other=0.0).to(tl.float32)
    d_cell = tl.zeros((BB, BH), tl.float32)
    if LSTM:
        d_cell = tl.load(d_cell_last + of_state, mask=inside, other=0.0)
    keep_mask = tl.zeros((BB, BH), tl.float32)
    if KEEP:
        keep_mask = tl.load(keep + of_state, mask=inside, other=0.0).to(tl.float32)
    peeps = peepholes(extra, direction, unit, H, KIND, EXTRA)
    none = tl.zeros((BB, BH), tl.float32)
    sums, norm, norm_sums = (none, none, none), (), ()
    if NORM[0] > 0:
        gains, inner_gain, inner_shift = gains_of(gain, direction, unit, H, ROWS, NORM)
        norm = (exchange, inner_exchange, gains, inner_gain, inner_shift)
        norm_sums = (tl.zeros((BB, BH, R), tl.float32), none, none)

    here = (row, length, direction, unit, inside, tl.program_id(0) % blocks)
    sources = (saved, previous, d_y, normals, scales)
    data, normed = kept_of(steps - 1, here, sources, B, H, OPTIONS, NORM)
    # as in the forward kernel: registers, or shared memory
    if IN_REGISTERS:
        step = steps - 1
        while step >= 0:
            d_hidden, d_cell, sums, norm_sums, data, normed, limit = backward_step(
                step, d_hidden, d_cell, sums, norm_sums, data, normed, limit, here, sources, held, reset_held,
                candidate_held, keep_mask, peeps, norm, stay_hidden, stay_cell, d_input, d_product, B, H, zone, OPTIONS,
                NORM, PLAN,
            )  # fmt: skip
            step -= 1
    else:
        for back in range(steps):
            d_hidden, d_cell, sums, norm_sums, data, normed, limit = backward_step(
                steps - 1 - back, d_hidden, d_cell, sums, norm_sums, data, normed, limit, here, sources, held,
                reset_held, candidate_held, keep_mask, peeps, norm, stay_hidden, stay_cell, d_input, d_product, B, H,
                zone, OPTIONS, NORM, PLAN,
            )  # fmt: skip

    tl.store(d_hidden_first + of_state, d_hidden.to(d_hidden_first.dtype.element_ty), mask=inside)
    if LSTM:
        tl.store(d_cell_first + of_state, d_cell, mask=inside)
    clear(d_input, GATES, row, length, direction, T, B, H, unit, inside, D)
    part = row_block * D + direction
    if PEEP:
        total = d_extra + part * 3 * H + unit
        for which in tl.static_range(3):
            tl.store(total + which * H, tl.sum(sums[which], 0), mask=unit < H)
    if NORM[0] > 0:
        clear(d_product, GATES, row, length, direction, T, B, H, unit, inside, D)
        total = d_gain + part * ROWS * H + unit
        gate = tl.arange(0, R)
        there = (unit < H)[:, None] & (gate < NORM[2])[None, :]
        tl.store(total[:, None] + gate[None, :] * H, tl.sum(norm_sums[0], 0), mask=there)
        for which in tl.static_range(1, ROWS - NORM[2] + 1):
            tl.store(total + (NORM[2] + which - 1) * H, tl.sum(norm_sums[which], 0), mask=unit < H)
    elif KIND == "gru":
        clear(d_product, 1, row, length, direction, T, B, H, unit, inside, D)
    if limit == 1:
        tl.store(ok_flag, 0)
