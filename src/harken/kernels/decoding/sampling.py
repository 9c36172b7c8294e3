"""Sampling in compiled code: the random numbers, the cuts and the draws of `harken.search.sampling`.

The reference sorts for the nucleus; here the least probability that is kept is found by bisection over the bits of
float32 numbers, each step of which is one pass of vectors. Log-probabilities that differ in the last bits may put a
boundary elsewhere, so that in rare cases another token is drawn than by the reference.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harken.kernels.decoding.attention import maximum
from harken.kernels.decoding.products import FLAGS, SUMS
from harken.kernels.decoding.tiles import out_of_line
from harken.kernels.decoding.topk import best_of_line
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import exp_not_positive

WORST, LEAST = np.float32(-np.inf), np.float32(-86)  # below it exp_not_positive is no longer exp
BLOCK = 64
INCREMENT, FIRST, SECOND = (
    np.uint64(number % 2**64) for number in (-7046029254386353131, -4658895280553007687, -7723592293110705685)
)


@linked_njit(**FLAGS)
def uniform(seed: Any, row: Any, sample: Any, position: Any) -> Any:
    """A number from [0, 1): a hash (splitmix64) of the seed and three counters."""
    state = np.uint64(seed)
    for counter in (np.uint64(row), np.uint64(sample), np.uint64(position)):
        state = state * INCREMENT + counter + np.uint64(1)
        state = (state ^ (state >> np.uint64(30))) * FIRST
        state = (state ^ (state >> np.uint64(27))) * SECOND
        state = state ^ (state >> np.uint64(31))
    return float(state >> np.uint64(11)) * 2.0**-53


@linked_njit(**FLAGS)
def _exponentials(line: Any, largest: Any) -> None:
    for k in range(line.shape[0]):
        value = line[k] - largest
        line[k] = exp_not_positive(value) if value > LEAST else np.float32(0)


@linked_njit(**SUMS)
def _mass(line: Any, first: Any, last: Any) -> Any:
    total = 0.0
    for k in range(first, last):
        total += np.float64(line[k])
    return total


@linked_njit(**SUMS)
def _mass_above(line: Any, least: Any) -> Any:
    total = np.float32(0)
    for k in range(line.shape[0]):
        total += line[k] if line[k] > least else np.float32(0)
    return total


@linked_njit(**FLAGS)
def _cut_nucleus(line: Any, mass: Any) -> None:
    """Only probabilities (V,) for which all larger ones sum to less than `mass`; the others become 0."""
    pair = np.zeros(1, np.float32)
    bits = pair.view(np.int32)
    pair[0] = maximum(line, line.shape[0])
    low, high = np.int64(-1), np.int64(bits[0])  # all numbers from the bits `high` on are kept, those of `low` are not
    while high - low > 1:
        bits[0] = (low + high) // 2
        if _mass_above(line, pair[0]) < mass:
            high = np.int64(bits[0])
        else:
            low = np.int64(bits[0])
    bits[0] = high
    least = pair[0]
    for k in range(line.shape[0]):
        line[k] = line[k] if line[k] >= least else np.float32(0)


@linked_njit(**FLAGS)
def draw(line: Any, rules: Any, number: Any, tops: Any, top_ids: Any) -> Any:
    """A token from scores `line` (whole panels,), which are overwritten.

    Args:
        number: from [0, 1).
        tops, top_ids: (K,) memory for top-k; (0,) without.
    """
    out_of_line()
    width = line.shape[0]
    if rules.temperature == 0:
        return np.int64(np.argmax(line))
    if rules.temperature != 1.0:
        temperature = np.float32(rules.temperature)
        for k in range(width):
            line[k] /= temperature
    if tops.shape[0] > 0:
        best_of_line(line, tops, top_ids)
        line[:] = WORST
        for k in range(tops.shape[0]):
            if tops[k] > WORST:
                line[top_ids[k]] = tops[k]
    largest = maximum(line, width)
    if not largest > WORST:
        return rules.special.pad
    if rules.min_p > 0:
        least = largest + np.float32(math.log(rules.min_p))
        for k in range(width):
            line[k] = WORST if line[k] < least else line[k]
    _exponentials(line, largest)
    if rules.top_p < 1:
        _cut_nucleus(line, np.float32((rules.top_p - 1e-6) * _mass(line, 0, width)))
    target = number * _mass(line, 0, width)
    reached, block = 0.0, 0
    while block < width:
        part = _mass(line, block, min(block + BLOCK, width))
        if reached + part > target:
            break
        reached += part
        block += BLOCK
    token = -1
    for k in range(block if block < width else 0, width):  # past the block only where rounding asks for it
        if line[k] > 0:
            token = k
            if k >= block:
                reached += np.float64(line[k])
                if reached > target:
                    return np.int64(k)
    return np.int64(token)
