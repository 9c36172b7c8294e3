"""Draws the next tokens on a GPU: temperature, top-k, min-p, top-p and the random numbers, one program a row.

The reference is `harken.search.sampling`, whose random numbers are computed here, a hash of the seed, the source's
number, the sample's and the position: a captured graph that is replayed reads them from the device, and equal seeds
give equal texts. Nothing is sorted. Of p, the probability of a token divided by that of the best one, the least that is
kept is found by bisection over the bits of float32 numbers, which are in the order of the numbers:

    top-k    the largest bound with k tokens at or above it; of equals at the bound the lower ids are taken
    top-p    the largest bound whose mass at or above it reaches p

A bisection ends as soon as at most one token lies between its two sides, usually after some fifteen steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from harken.kernels.decoding.cuda.overlap import allow_next, options, wait_for_previous
from harken.kernels.decoding.cuda.rules import raw_logits
from harken.kernels.triton_import import tl, triton

BLOCK = 32768  # tokens that a program holds; larger vocabularies are read again at every step
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
def load_text(
    line: tl.tensor, token: tl.tensor, vocabulary: tl.tensor, only: tl.tensor, FIRST: tl.constexpr, SECOND: tl.constexpr
) -> tl.tensor:
    """The logits of some tokens, -inf for those that must not be drawn."""
    values = tl.load(line + token, token < vocabulary, other=float("-inf")).to(tl.float32)
    is_excluded = (token == FIRST) | (token == SECOND) | ((only >= 0) & (token != only))
    return tl.where(is_excluded, float("-inf"), values)


@triton.jit
def shares(
    line: tl.tensor,
    held: tl.tensor,
    token: tl.tensor,
    vocabulary: tl.tensor,
    only: tl.tensor,
    best: tl.tensor,
    heat: tl.tensor,
    PARTS: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
) -> tl.tensor:
    """p of some tokens: those that the program holds, or else they are read."""
    if PARTS == 1:
        return held
    else:
        return tl.exp((load_text(line, token, vocabulary, only, FIRST, SECOND) - best) / heat)


@triton.jit
def sample_kernel(
    logits: tl.tensor,
    base: tl.tensor,
    past: tl.tensor,
    saved: tl.tensor,
    kept: tl.tensor,
    target: tl.tensor,
    log_sums: tl.tensor,
    shift: tl.tensor,
    penalties: tl.tensor,
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
    capacity: tl.tensor,
    beam: tl.tensor,
    UNKNOWN: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
    BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
    SCORED: tl.constexpr,
    TOLERANCE: tl.constexpr,
    OVERLAP: tl.constexpr,
) -> None:
    """One row of logits (R, V) -> the score, log-probability and id of a token, all (R, 1).

    Settings: temperature, top-p, min-p. `most`: k of top-k, or no limit. `numbers` (B,) are of the sources.
    """
    if OVERLAP:
        allow_next()
        wait_for_previous()
    row, slot, lowest = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK), float("-inf")
    line, allowed = logits + row * vocabulary, tl.full((), -1, tl.int32)
    if SCORED:
        allowed = tl.load(only + row)
    temperature, mass_kept, least = tl.load(settings), tl.load(settings + 1), tl.load(settings + 2)
    is_greedy = temperature == 0.0
    heat = tl.where(is_greedy, 1.0, temperature)
    held = load_text(line, slot, vocabulary, allowed, FIRST, SECOND)
    best = tl.max(held, 0)
    for part in range(1, PARTS):
        best = tl.maximum(best, tl.max(load_text(line, part * BLOCK + slot, vocabulary, allowed, FIRST, SECOND), 0))
    held = tl.exp((held - best) / heat)

    # top-k: tokens above `edge`, and of those at it only ids below `last_id`
    wanted = tl.where(is_greedy, 1, tl.load(most)).to(tl.int32)
    low, high = tl.full((), 1, tl.int32), tl.full((), 0x3F800001, tl.int32)  # the least number, the next after 1
    above, count = tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
        count += tl.sum((share > 0.0).to(tl.int32), 0)
    while (high - low > 1) & (count > wanted):
        middle, inner = low + (high - low) // 2, tl.full((), 0, tl.int32)
        for part in range(PARTS):
            share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
            inner += tl.sum((share >= middle.to(tl.float32, bitcast=True)).to(tl.int32), 0)
        is_enough = inner >= wanted
        low, count = tl.where(is_enough, middle, low), tl.where(is_enough, inner, count)
        high, above = tl.where(is_enough, high, middle), tl.where(is_enough, above, inner)
    edge = low.to(tl.float32, bitcast=True)
    first_id, last_id = tl.full((), 0, tl.int32), vocabulary + tl.full((), 0, tl.int32)
    if count > wanted:  # all that are too many are at the edge
        while last_id - first_id > 1:
            middle, inner = first_id + (last_id - first_id) // 2, tl.full((), 0, tl.int32)
            for part in range(PARTS):
                share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
                inner += tl.sum(((share == edge) & (part * BLOCK + slot < middle)).to(tl.int32), 0)
            is_enough = above + inner >= wanted
            last_id, first_id = tl.where(is_enough, middle, last_id), tl.where(is_enough, first_id, middle)

    # the mass of what top-k and min-p leave, then the bound of top-p
    total, count = tl.full((), 0.0, tl.float32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
        left = (share >= least) & ((share > edge) | ((share == edge) & (part * BLOCK + slot < last_id)))
        if PARTS == 1:
            held = tl.where(left, share, 0.0)
        total += tl.sum(tl.where(left, share, 0.0), 0)
        count += tl.sum(left.to(tl.int32), 0)
    low, high, above = tl.full((), 1, tl.int32), tl.full((), 0x3F800001, tl.int32), tl.full((), 0, tl.int32)
    goal = (mass_kept - TOLERANCE) * total
    while (mass_kept < 1.0) & (high - low > 1) & (count - above > 1):
        middle, inner, mass = low + (high - low) // 2, tl.full((), 0, tl.int32), tl.full((), 0.0, tl.float32)
        for part in range(PARTS):
            share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
            left = share >= middle.to(tl.float32, bitcast=True)
            if PARTS > 1:
                left = left & (share >= least)
                left = left & ((share > edge) | ((share == edge) & (part * BLOCK + slot < last_id)))
            mass += tl.sum(tl.where(left, share, 0.0), 0)
            inner += tl.sum(left.to(tl.int32), 0)
        reaches = mass >= goal
        low, count = tl.where(reaches, middle, low), tl.where(reaches, inner, count)
        high, above = tl.where(reaches, high, middle), tl.where(reaches, above, inner)
    nucleus = low.to(tl.float32, bitcast=True)

    total = tl.full((), 0.0, tl.float32)
    for part in range(PARTS):
        share = shares(line, held, part * BLOCK + slot, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
        left = (share >= least) & (share >= nucleus)
        left = left & ((share > edge) | ((share == edge) & (part * BLOCK + slot < last_id)))
        total += tl.sum(tl.where(left, share, 0.0), 0)
    owner = row // beam
    number = uniform(tl.load(seed), tl.load(numbers + owner), row - owner * beam, tl.load(position))
    goal, reached = number.to(tl.float32) * total, tl.full((), 0.0, tl.float32)
    drawn, last = vocabulary + tl.full((), 0, tl.int32), tl.full((), 0, tl.int32)
    for part in range(PARTS):
        token = part * BLOCK + slot
        share = shares(line, held, token, vocabulary, allowed, best, heat, PARTS, FIRST, SECOND)
        left = (share >= least) & (share >= nucleus) & ((share > edge) | ((share == edge) & (token < last_id)))
        share = tl.where(left, share, 0.0)
        passes = left & (reached + tl.cumsum(share, 0) > goal)
        drawn = tl.minimum(drawn, tl.min(tl.where(passes, token, vocabulary), 0))
        last = tl.maximum(last, tl.max(tl.where(left, token, 0), 0))
        reached += tl.sum(share, 0)
    token = tl.where(drawn < vocabulary, drawn, last)  # the last one where sums differ by rounding
    value = tl.load(line + token).to(tl.float32)
    if SCORED:
        raw = raw_logits(
            base, past, saved, kept, target, penalties, position, row, token, token >= 0, vocabulary, capacity, UNKNOWN
        )
        raw, value = raw - tl.load(log_sums + row), value + tl.load(shift + row)
    else:
        mass, peak = tl.full((), 0.0, tl.float32), tl.maximum(best, value)
        for part in range(PARTS):  # also of what must not be drawn
            here = tl.load(line + part * BLOCK + slot, part * BLOCK + slot < vocabulary, other=lowest).to(tl.float32)
            peak = tl.maximum(peak, tl.max(here, 0))
        for part in range(PARTS):
            here = tl.load(line + part * BLOCK + slot, part * BLOCK + slot < vocabulary, other=lowest).to(tl.float32)
            mass += tl.sum(tl.exp(here - peak), 0)
        raw = value - peak - tl.log(mass)
        value = raw
    tl.store(values + row, tl.where(best > lowest, value, lowest))
    tl.store(gains + row, raw)
    tl.store(ids + row, token.to(tl.int64))


def draw(search: Any, rules: Any, logits: Tensor, base: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits (R, V) -> the score, the log-probability and the id of one token for each row, all (R, 1).

    Args:
        rules: those that have changed the logits; None: no rule.
        base: see `harken.kernels.decoding.cuda.choosing.choose_scored`.
    """
    rows, vocabulary = logits.shape
    values, gains = torch.empty(2, rows, 1, device=logits.device).unbind(0)
    ids = torch.empty(rows, 1, dtype=torch.long, device=logits.device)
    block = min(BLOCK, triton.next_power_of_2(vocabulary))
    sampling, kept, capacity, unknown = search.sampling, [values] * 7 + [ids], 1, 0
    if rules is not None:
        capacity, unknown = rules.saved.shape[1], rules.unknown
        kept = [rules.histories[0], rules.saved, rules.kept, rules.target, rules.log_sums, rules.shift, rules.numbers]
        kept.append(rules.only)
    sample_kernel[(rows,)](
        logits, base, *kept, sampling.settings, sampling.most, sampling.seed, sampling.numbers, search.length,
        values, gains, ids, vocabulary, capacity, search.beam,
        UNKNOWN=unknown, FIRST=search.special.pad, SECOND=search.special.bos, BLOCK=block,
        PARTS=triton.cdiv(vocabulary, block), SCORED=rules is not None, TOLERANCE=TOLERANCE,
        num_warps=max(1, block // 1024), **options(logits.is_cuda),
    )  # fmt: skip
    return values, gains, ids
