"""Draws the next tokens on a GPU: temperature, top-k, min-p, top-p and the random numbers, one program a row.

The reference is `harken.search.sampling`, whose random numbers are computed here, a hash of the seed, the source's
number, the sample's and the position: a captured graph that is replayed reads them from the device, and equal seeds
give equal texts. Nothing is sorted. Of u = largest score - score, the distance from the best token, a bound is found by
bisection over the bits of float32 numbers, which are in the order of the numbers:

    top-k    the least bound that leaves k tokens below it; of equals at the bound the lower ids are taken
    top-p    the largest bound whose mass below it is less than p

A bisection ends as soon as at most one token lies between its two sides, usually after some fifteen steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.triton_import import tl, triton

BLOCK = 32768  # scores that a program holds; larger vocabularies are read again at every step
TOLERANCE = 1e-6  # of the mass of top-p, for rounding in sums


@triton.jit
def uniform(seed: tl.tensor, row: tl.tensor, sample: tl.tensor, position: tl.tensor) -> tl.tensor:
    """A number from [0, 1): splitmix64 of the seed and three counters, all int64."""
    state = seed
    for index in tl.static_range(3):
        counter = row if index == 0 else (sample if index == 1 else position)
        state = state * -7046029254386353131 + counter + 1
        state = (state ^ ((state >> 30) & ((1 << 34) - 1))) * -4658895280553007687
        state = (state ^ ((state >> 27) & ((1 << 37) - 1))) * -7723592293110705685
        state = state ^ ((state >> 31) & ((1 << 33) - 1))
    return ((state >> 11) & ((1 << 53) - 1)).to(tl.float64) * (2.0**-53)


@triton.jit
def load_scores(
    line: tl.tensor, token: tl.tensor, vocabulary: tl.tensor, only: tl.tensor, FIRST: tl.constexpr, SECOND: tl.constexpr
) -> tl.tensor:
    """The scores of some tokens, -inf for those that must not be drawn."""
    values = tl.load(line + token, token < vocabulary, other=float("-inf"))
    is_excluded = (token == FIRST) | (token == SECOND) | ((only >= 0) & (token != only))
    return tl.where(is_excluded, float("-inf"), values)


@triton.jit
def distances(
    line: tl.tensor,
    held: tl.tensor,
    start: tl.tensor,
    vocabulary: tl.tensor,
    only: tl.tensor,
    best: tl.tensor,
    heat: tl.tensor,
    BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
) -> tl.tensor:
    """(best - score) / temperature of the tokens from `start` on."""
    values = held
    if PARTS > 1:
        values = load_scores(line, start + tl.arange(0, BLOCK), vocabulary, only, FIRST, SECOND)
    return (best - values) / heat


@triton.jit
def sample_kernel(
    scores: tl.tensor,
    raws: tl.tensor,
    shift: tl.tensor,
    only: tl.tensor,
    settings: tl.tensor,
    most: tl.tensor,
    seed: tl.tensor,
    numbers: tl.tensor,
    position: tl.tensor,
    values: tl.tensor,
    gains: tl.tensor,
    ids: tl.tensor,
    vocabulary: tl.tensor,
    beam: tl.tensor,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
    SCORED: tl.constexpr,
    TOLERANCE: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row of scores and log-probabilities (R, V) -> the score, log-probability and id of a token, all (R, 1).

    Settings: temperature, top-p, -log of min-p. `most`: k of top-k, or no limit. `numbers` (B,) are of the sources.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, slot, infinity = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK), 0x7F800000
    line, allowed, added = scores + row * vocabulary, tl.full((), -1, tl.int32), 0.0
    if SCORED:
        allowed, added = tl.load(only + row), tl.load(shift + row)
    temperature, mass_kept, farthest = tl.load(settings), tl.load(settings + 1), tl.load(settings + 2)
    held = load_scores(line, slot, vocabulary, allowed, FIRST, SECOND)
    best = tl.max(held, 0)
    for part in range(1, PARTS):
        best = tl.maximum(best, tl.max(load_scores(line, part * BLOCK + slot, vocabulary, allowed, FIRST, SECOND), 0))
    is_greedy = temperature == 0.0
    heat = tl.where(is_greedy, 1.0, temperature)
    farthest = tl.where(is_greedy, 0.0, farthest)

    # top-k: tokens nearer than `high`, and of those at `high - 1` only ids below `last_id`
    wanted = tl.where(is_greedy, 1, tl.load(most)).to(tl.int32)
    low, high, last_id = (
        tl.full((), 0, tl.int32),
        tl.full((), infinity, tl.int32),
        vocabulary + tl.full((), 0, tl.int32),
    )
    nearer, count = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
        count += tl.sum((far < float("inf")).to(tl.int32), 0)
    while (high - low > 1) & (count > wanted):
        middle = low + (high - low) // 2
        bound, inner = middle.to(tl.float32, bitcast=True), tl.full((), 0, tl.int32)
        for part in range(PARTS):
            far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
            inner += tl.sum((far < bound).to(tl.int32), 0)
        is_enough = inner >= wanted
        high, count = tl.where(is_enough, middle, high), tl.where(is_enough, inner, count)
        low, nearer = tl.where(is_enough, low, middle), tl.where(is_enough, nearer, inner)
    edge = low.to(tl.float32, bitcast=True)  # where more than k are left, all tokens past the others are here
    least_id = tl.full((), 0, tl.int32)
    if count > wanted:
        while last_id - least_id > 1:
            middle = least_id + (last_id - least_id) // 2
            inner = tl.full((), 0, tl.int32)
            for part in range(PARTS):
                far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
                inner += tl.sum(((far == edge) & (part * BLOCK + slot < middle)).to(tl.int32), 0)
            is_enough = nearer + inner >= wanted
            last_id, least_id = tl.where(is_enough, middle, last_id), tl.where(is_enough, least_id, middle)
    bound = high.to(tl.float32, bitcast=True)

    # the mass of what top-k and min-p leave, then the bound of top-p
    total, count = tl.full((), 0.0, tl.float32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
        left = (far < bound) & (far <= farthest) & ((far != edge) | (part * BLOCK + slot < last_id))
        total += tl.sum(tl.where(left, tl.exp(-far), 0.0), 0)
        count += tl.sum(left.to(tl.int32), 0)
    low, high = tl.full((), 0, tl.int32), tl.full((), infinity, tl.int32)
    nearer = tl.full((), 0, tl.int32)
    target = (mass_kept - TOLERANCE) * total
    while (mass_kept < 1.0) & (high - low > 1) & (count - nearer > 1):
        middle = low + (high - low) // 2
        nucleus, inner, mass = (
            middle.to(tl.float32, bitcast=True),
            tl.full((), 0, tl.int32),
            tl.full((), 0.0, tl.float32),
        )
        for part in range(PARTS):
            far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
            left = (far < bound) & (far <= farthest) & ((far != edge) | (part * BLOCK + slot < last_id))
            left = left & (far < nucleus)
            mass += tl.sum(tl.where(left, tl.exp(-far), 0.0), 0)
            inner += tl.sum(left.to(tl.int32), 0)
        is_within = mass < target
        low, nearer = tl.where(is_within, middle, low), tl.where(is_within, inner, nearer)
        high, count = tl.where(is_within, high, middle), tl.where(is_within, count, inner)
    nucleus = high.to(tl.float32, bitcast=True)

    total = tl.full((), 0.0, tl.float32)
    for part in range(PARTS):
        far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
        left = (far < bound) & (far <= farthest) & ((far != edge) | (part * BLOCK + slot < last_id))
        total += tl.sum(tl.where(left & (far < nucleus), tl.exp(-far), 0.0), 0)
    owner = row // beam
    number = uniform(tl.load(seed), tl.load(numbers + owner), row - owner * beam, tl.load(position))
    target, reached = number.to(tl.float32) * total, tl.full((), 0.0, tl.float32)
    drawn, last = vocabulary + tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        far = distances(line, held, part * BLOCK, vocabulary, allowed, best, heat, BLOCK, PARTS, FIRST, SECOND)
        left = (far < bound) & (far <= farthest) & ((far != edge) | (part * BLOCK + slot < last_id))
        left = left & (far < nucleus)
        share, token = tl.where(left, tl.exp(-far), 0.0), part * BLOCK + slot
        passes = left & (share > 0.0) & (reached + tl.cumsum(share, 0) > target)
        drawn = tl.minimum(drawn, tl.min(tl.where(passes, token, vocabulary), 0))
        last = tl.maximum(last, tl.max(tl.where(share > 0.0, token, 0), 0))
        reached += tl.sum(share, 0)
    token = tl.where(drawn < vocabulary, drawn, last)  # the last one where sums differ by rounding
    tl.store(values + row, tl.where(best > float("-inf"), tl.load(line + token) + added, float("-inf")))
    tl.store(gains + row, tl.load(raws + row * vocabulary + token))
    tl.store(ids + row, token.to(tl.int64))


def draw(
    search: Any, scores: Tensor, raws: Tensor, shift: Tensor | None, only: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Scores and log-probabilities (R, V) -> those of one token for each row, and its id, all (R, 1).

    Args:
        shift, only: see `harken.kernels.decoding.cuda.choosing.choose_scored`; None: no rule changed the scores.
    """
    rows, vocabulary = scores.shape
    values, gains = torch.empty(2, rows, 1, device=scores.device).unbind(0)
    ids = torch.empty(rows, 1, dtype=torch.long, device=scores.device)
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    sampling = search.sampling
    sample_kernel[(rows,)](
        scores, raws, scores if shift is None else shift, ids if only is None else only, sampling.settings,
        sampling.most, sampling.seed, sampling.numbers, search.length, values, gains, ids, vocabulary, search.beam,
        FIRST=search.special.pad, SECOND=search.special.bos, BLOCK=block, PARTS=triton.cdiv(vocabulary, block),
        SCORED=shift is not None, TOLERANCE=TOLERANCE, num_warps=max(1, block // 1024), **options(scores.is_cuda),
    )  # fmt: skip
    return values, gains, ids
