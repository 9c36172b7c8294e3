"""Draws of word2vec: which words stay, how wide a window is, which words serve as wrong answers.

Wrong answers come by count^0.75. An alias table gives one with a single draw: V columns of height 1, each split between
two words; a number in [0, V) names the column by its whole part and the half by its fraction. It needs 12 bytes a word
and stays in the cache, where the usual table of a hundred million entries does not.

Random numbers are a linear congruential sequence of 64 bits, of which the upper 53 are used; definition and kernel
walk through the same one. References: Walker, 1977 (alias); Mikolov et al., 2013 (the power 0.75); Knuth (constants).

>>> table = alias_table(np.array([8, 1, 1]), power=1.0)
>>> draws = Draws(7)
>>> counts = np.bincount([draws.alias(*table) for _ in range(10_000)])
>>> counts.round(-2).tolist()
[8000, 1000, 1000]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
UNIT = 2.0**-53
POWER = 0.75


class Draws:
    """The sequence of random numbers, one at a time: what the kernel does with one 64-bit word of state."""

    def __init__(self, state: int) -> None:
        self.state = state

    def uniform(self) -> float:
        """In [0, 1)."""
        self.state = (self.state * MULTIPLIER + INCREMENT) % 2**64
        return (self.state >> 11) * UNIT

    def alias(self, height: NDArray[np.float32], other: NDArray[np.int32]) -> int:
        """A number by its weight."""
        place = self.uniform() * len(height)
        column = int(place)
        return column if place - column < height[column] else int(other[column])


def span_state(seed: int, epoch: int, span: int) -> int:
    """Where the sequence starts for a piece of the text, so that pieces may be trained in any order."""
    mixed = (seed * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9 + span * 0x94D049BB133111EB + 1) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> shift) * factor % 2**64
    return mixed ^ mixed >> 31


def alias_table(counts: NDArray[np.int64], power: float = POWER) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """How high the word of each column stands in it, and which word has the rest."""
    weights = counts.astype(np.float64) ** power
    size = len(weights)
    share = (weights / weights.sum() * size).tolist()
    height, other = [1.0] * size, list(range(size))
    low = [number for number in range(size) if share[number] < 1]
    high = [number for number in range(size) if share[number] >= 1]
    while low and high:
        small, large = low.pop(), high[-1]
        height[small], other[small] = share[small], large
        share[large] -= 1 - share[small]
        if share[large] < 1:
            low.append(high.pop())
    return np.array(height, dtype=np.float32), np.array(other, dtype=np.int32)
