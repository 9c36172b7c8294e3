"""How something grows with length: the exponent of a power law, where two curves cross, and seconds that are not noise.

>>> lengths = [8, 16, 32]
>>> round(exponent(lengths, [3 * n**2 for n in lengths]), 6)
2.0
>>> round(crossing(lengths, [n**2 for n in lengths], [20 * n for n in lengths]), 6)
20.0
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of the straight line nearest to the points on logarithmic axes."""
    across, up = [math.log(value) for value in x], [math.log(value) for value in y]
    middle, level = sum(across) / len(across), sum(up) / len(up)
    spread = sum((value - middle) ** 2 for value in across)
    return sum((a - middle) * (u - level) for a, u in zip(across, up, strict=True)) / spread


def crossing(x: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float | None:
    """Where `one` goes above `other` for good, straight on logarithmic axes between the points; None: it does not.

    >>> crossing([1, 2], [5, 6], [1, 1]) is None  # above from the start
    True
    """
    gaps = [math.log(a / b) for a, b in zip(one, other, strict=True)]
    for index in range(len(x) - 1, 0, -1):
        if gaps[index - 1] <= 0 < gaps[index]:
            share = -gaps[index - 1] / (gaps[index] - gaps[index - 1])
            return math.exp(math.log(x[index - 1]) + share * math.log(x[index] / x[index - 1]))
    return None


def seconds(work: Callable[[], object], budget: float, least: int = 3) -> float:
    """CPU time of the quickest of several calls on one thread, `budget` seconds of it in all.

    Time in which other processes had the core does not count, though what they did to its caches may.
    """
    spent: list[float] = []
    while len(spent) < least or sum(spent) < budget:
        before = time.thread_time()
        work()
        spent.append(time.thread_time() - before)
    return min(spent)
