# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="assignment"
"""The recurrent product of one step on a GPU, between programs that each hold a slice of the weights.

U h for all units needs the h that all programs made in the step before. There is no barrier: what a program waits for
is the data itself. The buffer that a step is written to was filled beforehand with a bit pattern that no result has
(the sentinel, all ones: one of the NaNs), so an element is there when it is something else. A program reads the group
of tiles that is written last until it finds no sentinel in it, reads the rest and multiplies. An element of the rest
that was still missing shows as a NaN in every sum it enters: then all is read again, until the sums have no NaN, or
until the elements were all seen before they were read and the NaN is thus one that was computed. So the usual step
costs a trip or two to the L2 cache and no barrier between programs.

Every spin-wait is bounded: after `limit` tries a program sets the error flag and does not wait again in this launch.

The warps of a program share the work along K: part s multiplies columns (j x KS + s) x KC ... of chunk j, and the sums
of all parts are added in a fixed order. PLAN is (BH, BB, KS, KC, NK, GROUP, precision, in registers): units and rows of
a program, parts, columns of a part in a chunk, chunks, chunks loaded at once (`harken.kernels.recurrent.triton.plan`).
Reference: U h in the steps of `harken.nn.recurrent`.
"""

from __future__ import annotations

from harken.kernels.triton_import import tl, triton


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
        pointer = weight + gate * gate_stride + unit * unit_stride + column * column_stride
        held = held + (tl.load(pointer, mask=(unit < H) & (column < H) & (gate < GATES), other=0.0),)  # noqa: RUF005
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
def _load(
    source,
    other,
    offset,
    offset_apart,
    running,
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    START: tl.constexpr,
    PLAN: tl.constexpr,
):
    """The tiles (KS, KC, BB) of the group at START as they are now; all loads are issued before the first is used."""
    KS: tl.constexpr = PLAN[2]
    KC: tl.constexpr = PLAN[3]
    NK: tl.constexpr = PLAN[4]
    GROUP: tl.constexpr = PLAN[5]
    column = tl.arange(0, KS)[:, None, None] * KC + tl.arange(0, KC)[None, :, None]  # (KS, KC, 1) of the first chunk
    base = source + offset[None, None, :] + column
    base_apart = other + offset_apart[None, None, :] + column if APART else base
    tiles = ()
    for tile in tl.static_range(START, min(START + GROUP, SEGMENTS * NK)):
        mask = running[None, None, :]
        if H % (KS * KC):
            mask = mask & (column + tile % NK * KS * KC < H)
        if APART and tile // NK == 0:
            pointer = base_apart + tile % NK * KS * KC
        else:
            pointer = base + ((SEGMENTS - 1 - tile // NK) * segment_stride + tile % NK * KS * KC)
        tiles = tiles + (tl.load(pointer, mask=mask, other=0.0, volatile=True),)  # noqa: RUF005
    return tiles


@triton.jit
def has_sentinel(tiles, COUNT: tl.constexpr):
    """1 where an element of the tiles is the sentinel, else 0: seen as a whole number, it is the largest of all."""
    if tiles[0].dtype == tl.float32:
        most = tiles[0].to(tl.uint32, bitcast=True)
        for tile in tl.static_range(1, COUNT):
            most = tl.maximum(most, tiles[tile].to(tl.uint32, bitcast=True))
        return (tl.max(most, None) == 0xFFFFFFFF).to(tl.int32)
    else:
        most = tiles[0].to(tl.uint16, bitcast=True)
        for tile in tl.static_range(1, COUNT):
            most = tl.maximum(most, tiles[tile].to(tl.uint16, bitcast=True))
        return (tl.max(most, None).to(tl.int32) == 0xFFFF).to(tl.int32)


@triton.jit
def _multiply(
    held,
    tiles,
    source,
    other,
    offset,
    offset_apart,
    running,
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    R: tl.constexpr,
    PLAN: tl.constexpr,
):
    """Up to four gates (BB, BH): the product with the first group, which was loaded before, and with all others."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    KS: tl.constexpr = PLAN[2]
    TILES: tl.constexpr = SEGMENTS * PLAN[4]
    GROUP: tl.constexpr = PLAN[5]
    PRECISION: tl.constexpr = PLAN[6]
    sums = tl.zeros((KS, BH * R, BB), tl.float32)
    for start in tl.static_range(0, TILES, GROUP):
        if start > 0:
            now = _load(source, other, offset, offset_apart, running, segment_stride, H, SEGMENTS, APART, start, PLAN)
        else:
            now = tiles
        for tile in tl.static_range(start, min(start + GROUP, TILES)):
            sums = tl.dot(held[tile], now[tile - start], sums, input_precision=PRECISION)
    return _added(sums, R, BH, BB, KS)


@triton.jit
def product(held, source, offset, running, H: tl.constexpr, R: tl.constexpr, PLAN: tl.constexpr):
    """Up to four gates (BB, BH) of rows that are there: element v of row b is source[offset[b] + v]."""
    tiles = _load(source, source, offset, offset, running, 0, H, 1, False, 0, PLAN)
    return _multiply(held, tiles, source, source, offset, offset, running, 0, H, 1, False, R, PLAN)


@triton.jit
def tiles_of(source, offset, running, H: tl.constexpr, PLAN: tl.constexpr):
    """The tiles of rows that are there, for plans that load them all at once; 0 of rows that do not run."""
    return _load(source, source, offset, offset, running, 0, H, 1, False, 0, PLAN)


@triton.jit
def wait_tiles(source, offset, running, limit, H: tl.constexpr, PLAN: tl.constexpr):
    """The same once every element is there, and the limit for the next wait; they serve several products."""
    CHUNKS: tl.constexpr = PLAN[4]
    tiles = tiles_of(source, offset, running, H, PLAN)
    waiting = has_sentinel(tiles, CHUNKS)
    tries = 0
    while waiting > 0:
        tiles = tiles_of(source, offset, running, H, PLAN)
        waiting = has_sentinel(tiles, CHUNKS)
        tries += 1
        if tries >= limit:
            waiting = 0
    if tries >= limit:
        limit = 1
    return tiles, limit


@triton.jit
def product_of(held, tiles, R: tl.constexpr, PLAN: tl.constexpr):
    """Up to four gates (BB, BH) of such tiles."""
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    KS: tl.constexpr = PLAN[2]
    CHUNKS: tl.constexpr = PLAN[4]
    PRECISION: tl.constexpr = PLAN[6]
    sums = tl.zeros((KS, BH * R, BB), tl.float32)
    for tile in tl.static_range(CHUNKS):
        sums = tl.dot(held[tile], tiles[tile], sums, input_precision=PRECISION)
    return _added(sums, R, BH, BB, KS)


@triton.jit
def wait_product(
    held,
    source,
    other,
    offset,  # (BB,)
    offset_apart,
    running,  # (BB,)
    segment_stride: tl.constexpr,
    H: tl.constexpr,
    limit,
    SEGMENTS: tl.constexpr,
    APART: tl.constexpr,
    R: tl.constexpr,
    PLAN: tl.constexpr,
):
    """The product once every element is there, and the limit for the next wait: 1 where this one's was reached.

    Element v of segment g of row b is source[offset[b] + g x segment_stride + v]; `APART`: of the last segment it is
    other[offset_apart[b] + v]. Tiles are in the order last segment first: it was written last.
    """
    BH: tl.constexpr = PLAN[0]
    BB: tl.constexpr = PLAN[1]
    TILES: tl.constexpr = SEGMENTS * PLAN[4]
    GROUP: tl.constexpr = PLAN[5]
    WATCHED: tl.constexpr = min(GROUP, TILES)
    first = tl.zeros((BB, BH), tl.float32)
    second, third, fourth = first, first, first
    tries = 0
    complete = 0  # 1: every element was seen before the last reading began, so that a NaN is one that was computed
    again = 1
    while again > 0:
        tiles = _load(source, other, offset, offset_apart, running, segment_stride, H, SEGMENTS, APART, 0, PLAN)
        waiting = has_sentinel(tiles, WATCHED)
        while waiting > 0:
            tiles = _load(source, other, offset, offset_apart, running, segment_stride, H, SEGMENTS, APART, 0, PLAN)
            waiting = has_sentinel(tiles, WATCHED)
            tries += 1
            if tries >= limit:
                waiting = 0
        first, second, third, fourth = _multiply(
            held, tiles, source, other, offset, offset_apart, running, segment_stride, H, SEGMENTS, APART, R, PLAN
        )
        again = 0
        if TILES > GROUP:
            again = tl.max((first != first).to(tl.int32), None) * (1 - complete)
            if again > 0:
                complete = 1
                for start in tl.static_range(GROUP, TILES, GROUP):
                    now = _load(
                        source, other, offset, offset_apart, running, segment_stride, H, SEGMENTS, APART, start, PLAN
                    )
                    complete = tl.minimum(complete, 1 - has_sentinel(now, min(GROUP, TILES - start)))
                tries += 1
                if tries >= limit:
                    again = 0
    if tries >= limit:
        limit = 1
    return first, second, third, fourth, limit


@triton.jit
def avoid_sentinel(values, target):
    """Values as the target has them, never the sentinel."""
    values = values.to(target.dtype.element_ty)
    if target.dtype.element_ty == tl.float32:
        bits = values.to(tl.int32, bitcast=True)
        return tl.where(bits == -1, 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)
    else:
        bits = values.to(tl.int16, bitcast=True)
        return tl.where(bits == -1, 0x7FFF, bits).to(tl.int16).to(target.dtype.element_ty, bitcast=True)
