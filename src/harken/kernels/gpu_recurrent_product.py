"""The recurrent product of one step on a GPU, between programs that each hold a slice of the weights.

U h for all units needs the h that all programs made in the step before. There is no barrier: what a program waits for is
the data itself. The buffer that a step is written to was filled beforehand with a bit pattern that no result has (all
ones: one of the NaNs), so an element is there when it is something else. A program multiplies what it finds: while one
element is missing, the NaN shows in every sum it enters, and the product is made again. So the usual step costs one
trip to the L2 cache and one look at the sums. Where a NaN stays, because the numbers themselves have one, the elements
are compared with the pattern, and the sums are taken as they are.

Every spin is bounded: after `limit` tries a program notes that it failed and waits no more for the rest of the launch.

The warps of a program share the work along K: warp s multiplies columns (j x KS + s) x KC ... of chunk j, and the sums
of all warps are added in a fixed order. PLAN is (BH, BB, KS, KC, NK, GROUP, precision): units and rows of a program,
warps, columns of a warp in a chunk, chunks, chunks loaded at once. Definition: `torch.nn.functional.linear` in `harken.nn.cell.Cell.from_hidden`.
"""

from __future__ import annotations

from harken.kernels.gpu_triton import tl, triton


@triton.jit
def held_weights(
    weight,
    first,  # the first unit of this program
    gate_stride,
    unit_stride,
    column_stride,
    H: tl.constexpr,
    GATES: tl.constexpr,
    R: tl.constexpr,
    PLAN: tl.constexpr,
):
    """NK tiles (KS, BH x R, KC): row m is unit m // R of gate m % R, rows of gates that are not there are 0."""
    BH: tl.constexpr = PLAN[0]
    KS: tl.constexpr = PLAN[2]
    KC: tl.constexpr = PLAN[3]
    NK: tl.constexpr = PLAN[4]
    held = ()
    part = tl.arange(0, KS)[:, None, None]
    inner = tl.arange(0, KC)[None, None, :]
    row = tl.arange(0, BH * R)[None, :, None]
    gate = row % R
    unit = first + row // R
    for chunk in tl.static_range(NK):
        column = (chunk * KS + part) * KC + inner
        place = weight + gate * gate_stride + unit * unit_stride + column * column_stride
        held = held + (tl.load(place, mask=(unit < H) & (column < H) & (gate < GATES), other=0.0),)
    return held


@triton.jit
def _halved(values):
    """(BB, BH, n) -> (BB, BH, n / 2): neighbours added."""
    left, right = tl.split(values.reshape(values.shape[0], values.shape[1], values.shape[2] // 2, 2))
    return left + right


@triton.jit
def _added(sums, R: tl.constexpr, BH: tl.constexpr, BB: tl.constexpr, KS: tl.constexpr):
    """The sums of all warps (KS, BH x R, BB) -> for each of up to four gates (BB, BH), spread over all threads."""
    total = sums.reshape(KS, BH, R, BB).permute(3, 1, 2, 0).reshape(BB, BH, R * KS)
    if KS >= 2:
        total = _halved(total)
    if KS >= 4:
        total = _halved(total)
    if KS >= 8:
        total = _halved(total)
    if KS >= 16:
        total = _halved(total)
    if R == 4:
        even, odd = tl.split(total.reshape(BB, BH, 2, 2))
        first, third = tl.split(even)
        second, fourth = tl.split(odd)
    elif R == 2:
        first, second = tl.split(total)
        third, fourth = first, second
    else:
        first = total.reshape(BB, BH)
        second, third, fourth = first, first, first
    return first, second, third, fourth


@triton.jit
def product(
    held,
    source,
    other,
    offset,  # (BB,)
    running,  # (BB,)
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    R: tl.constexpr,
    PLAN: tl.constexpr,
):
    """Up to four gates (BB, BH) of what the rows hold now: element v of segment g of row b is source[offset[b] + g x
    segment_stride + v]; `APART`: the last segment is other[offset[b] / SEGMENTS + v] instead."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    KS: tl.constexpr = PLAN[2]
    KC: tl.constexpr = PLAN[3]
    NK: tl.constexpr = PLAN[4]
    GROUP: tl.constexpr = PLAN[5]
    PRECISION: tl.constexpr = PLAN[6]
    column = tl.arange(0, KS)[:, None, None] * KC + tl.arange(0, KC)[None, :, None]  # (KS, KC, 1) of the first chunk
    base = source + offset[None, None, :] + column
    base_apart = other + (offset // SEGMENTS)[None, None, :] + column if APART else base
    sums = tl.zeros((KS, BH * R, BB), tl.float32)
    for start in tl.static_range(0, SEGMENTS * NK, GROUP):
        found = ()  # all loads of a group are under way before the first of them is used
        for tile in tl.static_range(start, min(start + GROUP, SEGMENTS * NK)):
            mask = running[None, None, :]
            if H % (KS * KC):
                mask = mask & (column + tile % NK * KS * KC < H)
            if APART and tile // NK == SEGMENTS - 1:
                place = base_apart + tile % NK * KS * KC
            else:
                place = base + (tile // NK * segment_stride + tile % NK * KS * KC)
            found = found + (tl.load(place, mask=mask, other=0.0, volatile=True),)
        for tile in tl.static_range(start, min(start + GROUP, SEGMENTS * NK)):
            sums = tl.dot(held[tile], found[tile - start], sums, input_precision=PRECISION)
    return _added(sums, R, BH, BB, KS)


@triton.jit
def _missing(
    source,
    other,
    offset,
    running,
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    PLAN: tl.constexpr,
):
    """1 while an element of the running rows still has the pattern, else 0."""
    BB: tl.constexpr = PLAN[1]
    KS: tl.constexpr = PLAN[2]
    KC: tl.constexpr = PLAN[3]
    NK: tl.constexpr = PLAN[4]
    part = tl.arange(0, KS)[:, None, None]
    inner = tl.arange(0, KC)[None, :, None]
    found = tl.zeros((KS, KC, BB), tl.int32)
    for tile in tl.static_range(SEGMENTS * NK):
        column = (tile % NK * KS + part) * KC + inner
        if APART and tile // NK == SEGMENTS - 1:
            place = other + (offset // SEGMENTS)[None, None, :] + column
        else:
            place = source + (offset + tile // NK * segment_stride)[None, None, :] + column
        data = tl.load(place, mask=(column < H) & running[None, None, :], other=0.0, volatile=True)
        if source.dtype.element_ty == tl.float32:
            bits = data.to(tl.int32, bitcast=True)
        else:
            bits = data.to(tl.int16, bitcast=True).to(tl.int32)
        found = tl.maximum(found, (bits == -1).to(tl.int32))
    return tl.max(found, None)


@triton.jit
def awaited_product(
    held,
    source,
    other,
    offset,
    running,
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    limit,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    R: tl.constexpr,
    PLAN: tl.constexpr,
):
    """The product once every element is there, and the limit for the next: 1 where this one was reached."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    first = tl.zeros((BB, BH), tl.float32)
    second, third, fourth = first, first, first
    tries = 0
    waiting = 1
    while waiting > 0:
        first, second, third, fourth = product(
            held, source, other, offset, running, segment_stride, H, SEGMENTS, APART, R, PLAN
        )
        tries += 1
        waiting = tl.max((first != first).to(tl.int32), None)
        if (waiting > 0) & (tries % 8 == 0):  # a NaN that stays may be one that was computed
            waiting = _missing(source, other, offset, running, segment_stride, H, SEGMENTS, APART, PLAN)
        if (waiting > 0) & (tries >= limit):
            waiting = 0
            limit = 1
    return first, second, third, fourth, limit


@triton.jit
def exchanged(values, target):
    """Values as the target has them, never the pattern."""
    values = values.to(target.dtype.element_ty)
    if target.dtype.element_ty == tl.float32:
        bits = values.to(tl.int32, bitcast=True)
        return tl.where(bits == -1, 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)
    else:
        bits = values.to(tl.int16, bitcast=True)
        return tl.where(bits == -1, 0x7FFF, bits).to(tl.int16).to(target.dtype.element_ty, bitcast=True)
