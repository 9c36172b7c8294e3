# mypy: allow-untyped-defs, allow-incomplete-defs
"""What a step of both launches reads and writes of a program's units and rows, as tiles (BB, BH), and where it lies.

Shapes are those of `harken.kernels.recurrent.triton.forward`.
"""

from __future__ import annotations

from harken.kernels.recurrent.triton.product import exchanged
from harken.kernels.triton_import import tl, triton


@triton.jit
def zoned(old, new, stay, zone, place, mask, ZONE: tl.constexpr):
    """Zoneout: 0 none, 1 by its mean, 2 by the masks that were drawn."""
    if ZONE == 0:
        return new
    elif ZONE == 1:
        return new + zone * (old - new)
    else:
        return tl.where(tl.load(stay + place, mask=mask, other=0) != 0, old, new)


@triton.jit
def places(step, row, length, direction, B, H: tl.constexpr, unit, D: tl.constexpr, REVERSE: tl.constexpr):
    """Where (BB, BH) a step of each row lies in (T, B, D, H), and where (BB,) the row begins."""
    if D == 2:
        time = tl.where(direction == 1, length - 1 - step, step)
    elif REVERSE:
        time = length - 1 - step
    else:
        time = step + tl.zeros_like(length)
    time = tl.maximum(time, 0).to(tl.int64)
    start = ((time * B + row) * D + direction) * H
    return start[:, None] + unit[None, :], start


@triton.jit
def clear(target, GATES: tl.constexpr, row, length, direction, T, B, H: tl.constexpr, unit, inside, D: tl.constexpr):
    """Write 0 where a row of (T, B, D, gates, H) has no step."""
    time = tl.min(tl.where(row < B, length, T), 0)
    while time < T:
        start = ((time.to(tl.int64) * B + row) * D + direction) * H * GATES
        place = target + start[:, None] + unit[None, :]
        for gate in tl.static_range(GATES):
            zero = tl.zeros(inside.shape, target.dtype.element_ty)
            tl.store(place + gate * H, zero, mask=inside & (time >= length)[:, None])
        time += 1


@triton.jit
def peepholes(extra, direction, unit, H: tl.constexpr, KIND: tl.constexpr, EXTRA: tl.constexpr):
    """The weights (1, BH) through which i, f and o see the cell; 0 where they do not. GRU: the bias comes first."""
    zero = (unit * 0).to(tl.float32)[None, :]
    first, second, third = zero, zero, zero
    if EXTRA:
        if KIND == "gru":
            first = tl.load(extra + direction * H + unit, mask=unit < H, other=0.0).to(tl.float32)[None, :]
        elif KIND == "coupled":
            own = extra + direction * 2 * H + unit
            second = tl.load(own, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            third = tl.load(own + H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
        else:
            own = extra + direction * 3 * H + unit
            first = tl.load(own, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            second = tl.load(own + H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
            third = tl.load(own + 2 * H, mask=unit < H, other=0.0).to(tl.float32)[None, :]
    return first, second, third


@triton.jit
def gates_of(source, start, unit, mask, H: tl.constexpr, GATES: tl.constexpr):
    """Up to four gates (BB, BH) of (T, B, D, gates, H), as they lie there."""
    place = source + (start * GATES)[:, None] + unit[None, :]
    first = tl.load(place, mask=mask, other=0.0)
    second, third, fourth = first, first, first
    if GATES >= 2:
        second = tl.load(place + H, mask=mask, other=0.0)
    if GATES >= 3:
        third = tl.load(place + 2 * H, mask=mask, other=0.0)
    if GATES >= 4:
        fourth = tl.load(place + 3 * H, mask=mask, other=0.0)
    return first, second, third, fourth


@triton.jit
def keep_gates(
    target, start, unit, mask, H: tl.constexpr, gates, COUNT: tl.constexpr, GATES: tl.constexpr, AWAITED: tl.constexpr
):
    """The other way: the first COUNT of `gates`, as what can be waited for, or as they are."""
    place = target + (start * GATES)[:, None] + unit[None, :]
    for gate in tl.static_range(COUNT):
        made = exchanged(gates[gate], target) if AWAITED else gates[gate].to(target.dtype.element_ty)
        tl.store(place + gate * H, made, mask=mask)
