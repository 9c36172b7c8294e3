# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="assignment"
"""Layer normalisation inside a launch: the units of a row are spread over programs, so they have to meet for it.

n = (v - mean(v)) / sqrt(var(v) + epsilon)        dv = (dn - mean(dn) - n mean(dn n)) / sqrt(var(v) + epsilon)

Both means of a line are over all H units, gate by gate; a program has BH of them. It writes two numbers a row and gate
into an exchange buffer and reads those of all programs: forward its sum, and its sum of squares about its own mean,
which are combined as Chan et al. (1983) do, so that nothing cancels; backward the sums of dn and of dn n. The buffer
was filled with the sentinel (`harken.kernels.recurrent.triton.product`), and the wait is bounded likewise.

Tiles are (BB, BH, R): R gates side by side. NORM is (blocks, pairs, gates, norms, R): blocks of units, rounded up to a
power of two; pairs of numbers of one row that are read at once; gates that are normalised together; these, and the
inner norm where there is one (C of an LSTM, the candidate of a GRU with its reset before); and R.
References: `harken.nn.recurrent.cell.GateNorm`, and `torch.nn.LayerNorm` of C in `harken.nn.recurrent.lstm`.
"""

from __future__ import annotations

from harken.kernels.recurrent.triton.product import avoid_sentinel, has_sentinel
from harken.kernels.triton_import import tl, triton


@triton.jit
def side_by_side(gates, R: tl.constexpr):
    """R gates (BB, BH) -> (BB, BH, R)."""
    if R == 4:
        pairs = tl.join(tl.join(gates[0], gates[2]), tl.join(gates[1], gates[3]))
        return pairs.reshape(gates[0].shape[0], gates[0].shape[1], 4)
    elif R == 2:
        return tl.join(gates[0], gates[1])
    else:
        return gates[0][:, :, None]


@triton.jit
def one_by_one(values, R: tl.constexpr):
    """The inverse of `side_by_side`; what is missing of four is the first again."""
    if R == 4:
        even, odd = tl.split(values.reshape(values.shape[0], values.shape[1], 2, 2))
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
    elif R == 2:
        first, second = tl.split(values)
        third, fourth = first, first
    else:
        first = values.reshape(values.shape[0], values.shape[1])
        second, third, fourth = first, first, first
    return first, second, third, fourth


@triton.jit
def _publish(exchange, at, block, running, values, others, H: tl.constexpr, R: tl.constexpr, PLAN: tl.constexpr):
    """Write this program's sums of R tiles (BB, BH) and of R others; a row lies within a warp, and stays there."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    BLOCKS: tl.constexpr = (H + BH - 1) // BH
    column = tl.arange(0, BH)[None, :]
    numbers = tl.zeros((BB, BH), tl.float32)
    for gate in tl.static_range(R):
        numbers = tl.where(column == 2 * gate, tl.sum(values[gate], 1)[:, None], numbers)
        numbers = tl.where(column == 2 * gate + 1, tl.sum(others[gate], 1)[:, None], numbers)
    pointer = ((at * BLOCKS + block) * (2 * R))[:, None] + column
    tl.store(exchange + pointer, avoid_sentinel(numbers, exchange), mask=running[:, None] & (column < 2 * R))


@triton.jit
def _collect(
    exchange, at, running, limit, FIRST: tl.constexpr, COUNT: tl.constexpr, BLOCKS: tl.constexpr, R: tl.constexpr
):
    """The two numbers (BB, COUNT, R) of each of COUNT programs from FIRST on, 0 of those that are not there."""
    BB: tl.constexpr = at.shape[0]
    block = FIRST + tl.arange(0, COUNT)[None, :, None]
    pointer = at[:, None, None] * (BLOCKS * 2 * R) + block * (2 * R) + tl.arange(0, 2 * R)[None, None, :]
    pointer = exchange + pointer  # what one program wrote of a row is read as one piece
    mask = running[:, None, None] & (block < BLOCKS)
    published = tl.load(pointer, mask=mask, other=0.0, volatile=True)
    waiting = has_sentinel((published,), 1)
    tries = 0
    while waiting > 0:
        published = tl.load(pointer, mask=mask, other=0.0, volatile=True)
        waiting = has_sentinel((published,), 1)
        tries += 1
        if tries >= limit:
            waiting = 0
    if tries >= limit:
        limit = 1
    first, second = tl.split(published.reshape(BB, COUNT, R, 2))
    return first, second, limit


@triton.jit
def _put_together(mean, spread, sums, squares, H: tl.constexpr, FIRST: tl.constexpr, BH: tl.constexpr):
    """Mean and sum of squares about it (BB, R) of the blocks before FIRST -> of these and of those from FIRST on."""
    COUNT: tl.constexpr = sums.shape[1]
    BEFORE: tl.constexpr = FIRST * BH
    HERE: tl.constexpr = min(H - BEFORE, COUNT * BH)
    units = tl.minimum(tl.maximum(H - (FIRST + tl.arange(0, COUNT)) * BH, 0), BH).to(tl.float32)[None, :, None]
    here = tl.sum(sums, 1) / HERE
    apart = tl.where(units > 0, sums / tl.maximum(units, 1.0) - here[:, None, :], 0.0)
    squared = tl.sum(squares + units * apart * apart, 1)
    ahead = here - mean
    mean = mean + ahead * (HERE / (BEFORE + HERE))
    return mean, spread + squared + ahead * ahead * (BEFORE * HERE / (BEFORE + HERE))


@triton.jit
def moments(exchange, at, running, limit, H: tl.constexpr, R: tl.constexpr, NORM: tl.constexpr, PLAN: tl.constexpr):
    """Mean and 1 / sqrt(var + epsilon), (BB, R), from what all programs wrote."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    BLOCKS: tl.constexpr = (H + BH - 1) // BH
    COUNT: tl.constexpr = min(NORM[0], NORM[1] // R)
    mean = tl.zeros((BB, R), tl.float32)
    spread = mean
    for first in tl.static_range(0, BLOCKS, COUNT):
        sums, squares, limit = _collect(exchange, at, running, limit, first, COUNT, BLOCKS, R)
        mean, spread = _put_together(mean, spread, sums, squares, H, first, BH)
    return mean, 1.0 / tl.sqrt(spread / H + 1e-5), limit


@triton.jit
def normalised(
    values, inside, exchange, at, block, running, limit,
    H: tl.constexpr, R: tl.constexpr, NORM: tl.constexpr, PLAN: tl.constexpr,
):  # fmt: skip
    """The n (BB, BH, R) of this program's units, and 1 / sqrt(var + epsilon), (BB, R).

    Args:
        values: R tiles (BB, BH), or four.
        inside: (BB, BH), where there is a unit.
        exchange: (T x B x D, programs, R, 2).
        at: (BB,), which of its rows this step has.
        block: which program of a row this is.
        running: (BB,), whether a row has this step.
    """
    BH: tl.constexpr = PLAN[0]
    there = tl.minimum(H - block * BH, BH).to(tl.float32)
    own, squares = (), ()
    for gate in tl.static_range(R):
        clean = tl.where(inside, values[gate], 0.0)
        apart = tl.where(inside, clean - (tl.sum(clean, 1) / there)[:, None], 0.0)
        own = own + (clean,)  # noqa: RUF005
        squares = squares + (apart * apart,)  # noqa: RUF005
    _publish(exchange, at, block, running, own, squares, H, R, PLAN)
    mean, scale, limit = moments(exchange, at, running, limit, H, R, NORM, PLAN)
    return (side_by_side(values, R) - mean[:, None, :]) * scale[:, None, :], scale, limit


@triton.jit
def _two_sums(first, second, more_first, more_second):
    return first + more_first, second + more_second


@triton.jit
def norm_backward(
    gradient, normal, scale, inside, exchange, at, block, running, limit,
    H: tl.constexpr, NORM: tl.constexpr, PLAN: tl.constexpr,
):  # fmt: skip
    """The gradient of n (BB, BH, R) -> that of v; the rest is as in `normalised`."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    R: tl.constexpr = gradient.shape[2]
    BLOCKS: tl.constexpr = (H + BH - 1) // BH
    COUNT: tl.constexpr = min(NORM[0], NORM[1] // R)
    clean = tl.where(inside[:, :, None], gradient, 0.0)
    first, second = tl.reduce((clean, clean * normal), 1, _two_sums)
    pointer = ((at * BLOCKS + block) * (2 * R))[:, None] + tl.arange(0, 2 * R)[None, :]
    numbers = avoid_sentinel(tl.join(first, second).reshape(BB, 2 * R), exchange)
    tl.store(exchange + pointer, numbers, mask=running[:, None])
    mean = tl.zeros((BB, R), tl.float32)
    along = mean
    for block_now in tl.static_range(0, BLOCKS, COUNT):
        sums, products, limit = _collect(exchange, at, running, limit, block_now, COUNT, BLOCKS, R)
        sums, products = tl.reduce((sums, products), 1, _two_sums)
        mean += sums / H
        along += products / H
    return (gradient - mean[:, None, :] - normal * along[:, None, :]) * scale[:, None, :], limit


@triton.jit
def gains_of(gain, direction, unit, H: tl.constexpr, ROWS: tl.constexpr, NORM: tl.constexpr):
    """From (D, ROWS, H): of the gates (1, BH, R); of the inner norm its gain and shift (1, BH)."""
    GATES: tl.constexpr = NORM[2]
    own = gain + direction * ROWS * H + unit
    R: tl.constexpr = NORM[4]
    gate = tl.arange(0, R)
    gates = tl.load(own[:, None] + gate[None, :] * H, mask=(unit < H)[:, None] & (gate < GATES)[None, :], other=0.0)
    inner, shift = (unit * 0).to(tl.float32), (unit * 0).to(tl.float32)
    if NORM[3] > GATES:
        inner = tl.load(own + GATES * H, mask=unit < H, other=0.0)
    if NORM[3] < ROWS:
        shift = tl.load(own + (GATES + 1) * H, mask=unit < H, other=0.0)
    return gates[None, :, :], inner[None, :], shift[None, :]


@triton.jit
def keep_norm(
    normals, scales, at, unit, now, running, block, normal, scale,
    H: tl.constexpr, FIRST: tl.constexpr, COUNT: tl.constexpr, NORMS: tl.constexpr,
):  # fmt: skip
    """Store n in (T, B, D, NORMS, H) and 1 / sqrt(var + epsilon) in (T, B, D, NORMS), from gate FIRST on."""
    gate = tl.arange(0, normal.shape[2])
    pointer = ((at * NORMS + FIRST) * H)[:, None, None] + unit[None, :, None] + (gate * H)[None, None, :]
    tl.store(
        normals + pointer, normal.to(normals.dtype.element_ty), mask=now[:, :, None] & (gate < COUNT)[None, None, :]
    )
    row = (at * NORMS + FIRST)[:, None] + gate[None, :]
    writes = running & (at * 0 == block)  # all programs have the same; two tensors: what the interpreter takes
    tl.store(scales + row, scale, mask=writes[:, None] & (gate < COUNT)[None, :])


@triton.jit
def kept_norm(normals, scales, at, unit, now, running, H: tl.constexpr, NORM: tl.constexpr):
    """Load what `keep_norm` stored: n, scale of the gates (BB, BH, R), (BB, R); of the inner norm (BB, BH), (BB,)."""
    GATES: tl.constexpr = NORM[2]
    NORMS: tl.constexpr = NORM[3]
    R: tl.constexpr = NORM[4]
    gate = tl.arange(0, R)
    pointer = (at * NORMS * H)[:, None, None] + unit[None, :, None] + (gate * H)[None, None, :]
    normal = tl.load(normals + pointer, mask=now[:, :, None] & (gate < GATES)[None, None, :], other=0.0)
    row = (at * NORMS)[:, None] + gate[None, :]
    scale = tl.load(scales + row, mask=running[:, None] & (gate < GATES)[None, :], other=0.0)
    if NORMS > GATES:
        inner_offset = ((at * NORMS + GATES) * H)[:, None] + unit[None, :]
        inner = tl.load(normals + inner_offset, mask=now, other=0.0)
        inner_scale = tl.load(scales + at * NORMS + GATES, mask=running, other=0.0)
        return normal, scale, inner, inner_scale
    else:
        return normal, scale
