"""How sure a score is: the 95% interval of a mean over examples, by drawing test sets from the test set.

Efron (1979): draw N of the N examples with replacement, score them, and again; the middle 95% of the scores is the
interval. Examples that belong together (the words of a sentence) are drawn together: give each group's sum and count.

>>> interval = bootstrap([1, 1, 1, 0, 1, 1, 0, 1, 1, 1] * 20)
>>> round(interval.value, 2), round(interval.low, 2), round(interval.high, 2)
(0.8, 0.74, 0.85)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

SAMPLES = 1000


@dataclass(frozen=True)
class Interval:
    """A score and the range it would have on other test sets of the same kind."""

    value: float
    low: float
    high: float

    def map(self, function: Callable[[float], float]) -> Interval:
        """The interval of an increasing function of the score."""
        return Interval(function(self.value), function(self.low), function(self.high))


def bootstrap(
    sums: npt.ArrayLike, counts: npt.ArrayLike | None = None, *, samples: int = SAMPLES, seed: int = 12345
) -> Interval:
    """The mean of `sums` over all examples; with `counts`, the sum of `sums` over the sum of `counts`."""
    above = np.asarray(sums, dtype=np.float64)
    below = np.ones_like(above) if counts is None else np.asarray(counts, dtype=np.float64)
    return resampled(len(above), lambda rows: above[rows].sum() / max(below[rows].sum(), 1e-12), samples, seed)


def resampled(count: int, score: Callable[[np.ndarray], float], samples: int = SAMPLES, seed: int = 12345) -> Interval:
    """Any score of a list of rows: its value on all of them, and its interval."""
    if count == 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    random = np.random.default_rng(seed)
    scores: Sequence[float] = [score(random.integers(0, count, count)) for _ in range(samples)]
    low, high = np.nanquantile(scores, (0.025, 0.975))
    return Interval(float(score(np.arange(count))), float(low), float(high))
