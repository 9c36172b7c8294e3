"""Is one setting better than another over several seeds, or could the difference be due to the seeds?

The paired t-test (Student, 1908): of the differences d_i between two settings with the same seed,

    t = mean(d) / (s / sqrt(n)),     s: their standard deviation with n - 1 degrees of freedom

is distributed as Student's t where the mean difference is 0 and the d_i are normal. Several settings against one
baseline are several tests: Holm's (1979) step-down adjustment keeps the chance of any false one at its level.

>>> test = paired_t_test([2.0, 3.0, 4.0, 6.0], [1.0, 2.5, 2.0, 4.0])
>>> round(test.difference, 3), round(test.t, 3), round(test.p_value, 4)
(1.375, 3.667, 0.0351)
>>> holm([0.01, 0.04, 0.03])
[0.03, 0.06, 0.06]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from harken.errors import UserError


class PairedTest(NamedTuple):
    """The mean difference of two settings over the same seeds."""

    difference: float  # first - second
    deviation: float  # of the differences
    t: float
    p_value: float  # two-sided
    pairs: int


def paired_t_test(first: Sequence[float], second: Sequence[float]) -> PairedTest:
    """The two-sided paired t-test; equal differences without deviation have p = 1 where they are 0, and else p = 0.

    Raises:
        UserError: fewer than two pairs, or unequal numbers of values.
    """
    count = len(first)
    if count < 2 or len(second) != count:
        raise UserError(f"a paired test needs two or more pairs; there are {count} and {len(second)} values")
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean = sum(differences) / count
    deviation = math.sqrt(sum((value - mean) ** 2 for value in differences) / (count - 1))
    if deviation <= 1e-12 * abs(mean) or deviation == 0:
        return PairedTest(mean, 0.0, math.copysign(math.inf, mean) if mean else 0.0, 0.0 if mean else 1.0, count)
    t = mean / (deviation / math.sqrt(count))
    return PairedTest(mean, deviation, t, student_p(t, count - 1), count)


def student_p(t: float, freedom: int) -> float:
    """P(|T| >= |t|) for Student's t with a whole number of degrees of freedom.

    The distribution function is a finite sum there (Abramowitz and Stegun, 26.7.3 and 26.7.4), with
    tan(angle) = t / sqrt(freedom).

    >>> round(student_p(2.776445, 4), 6), student_p(0.0, 3)
    (0.05, 1.0)
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2
    term, total = (cosine, 0.0) if is_odd else (1.0, 0.0)
    for index in range(freedom // 2):
        total += term
        below = 2 * index + 1 + is_odd
        term *= cosine**2 * below / (below + 1)
    inside = 2 / math.pi * (angle + sine * total) if is_odd else sine * total
    return min(1.0, max(0.0, 1 - inside))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number, in the same order."""
    adjusted, largest, count = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
