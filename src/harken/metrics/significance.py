"""Is one system better than another, or could the difference be due to the choice of test sentences?

Two paired tests, both two-sided: the null hypothesis is that the systems are equally good.

Paired bootstrap resampling (Koehn, 2004): draw as many lines as the test set has, with replacement, `samples` times,
and score both systems on each draw. The differences d_k, centred on their mean, show the spread due to chance:

    p = (1 + #{ |d_k - mean d| >= |d| }) / (1 + samples)

Approximate randomisation (Noreen, 1989; Riezler and Maxwell, 2005): swap the two systems' outputs of every line with
probability 1/2, `samples` times. Under the null hypothesis a swap changes nothing:

    p = (1 + #{ |d_k| >= |d| }) / (1 + samples)

Draws that equal the observed difference count, so identical systems have p = 1. The 95% interval of the difference is
the 2.5th to 97.5th percentile of the bootstrap's d_k in both cases. Draws are those of sacrebleu with the same seed;
sacrebleu's bootstrap centres |d_k| and counts strictly larger ones, which halves p and makes it 1 / (1 + samples) for
identical systems.

Settings that were trained with several seeds are compared by the paired t-test (Student, 1908): of the differences d_i
between two settings with the same seed,

    t = mean(d) / (s / sqrt(n)),     s: their standard deviation with n - 1 degrees of freedom

is distributed as Student's t where the mean difference is 0 and the d_i are normal. Several settings against one
baseline are several tests: Holm's (1979) step-down adjustment keeps the chance of any false one at its level.

>>> right = ["the black cat sleeps here", "a white dog runs now"] * 5
>>> compare_systems(right, right, right, test="randomisation", samples=100).p_value
1.0
>>> test = paired_t_test([2.0, 3.0, 4.0, 6.0], [1.0, 2.5, 2.0, 4.0])
>>> round(test.difference, 3), round(test.t, 3), round(test.p_value, 4)
(1.375, 3.667, 0.0351)
>>> holm([0.01, 0.04, 0.03])
[0.03, 0.06, 0.06]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from harken.errors import UserError
from harken.metrics.bleu import (
    Score,
    bleu_of_statistics,
    bleu_statistics,
    chrf_of_statistics,
    chrf_statistics,
    corpus_score,
    exact_of_statistics,
    exact_statistics,
)

Test = Literal["bootstrap", "randomisation"]
SAMPLES: dict[str, int] = {"bootstrap": 1000, "randomisation": 10_000}  # as many as sacrebleu draws
DRAWS_AT_ONCE = 64  # bounds memory: this many rows of line weights are multiplied together
STATISTICS = {  # counts of lines, and the score of their sums
    "bleu": (bleu_statistics, bleu_of_statistics),
    "chrf": (chrf_statistics, chrf_of_statistics),
    "exact": (exact_statistics, exact_of_statistics),
}
TIE = 1e-9  # scores this close are equal: the same lines summed in another order


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on one test set."""

    a: Score
    b: Score
    difference: float  # a - b: above 0 where the first system is better
    low: float  # the 95% interval of the difference
    high: float
    p_value: float
    samples: int
    seed: int
    test: Test = "bootstrap"

    @property
    def significant(self) -> bool:
        """Whether p < 0.05."""
        return self.p_value < 0.05

    def __str__(self) -> str:
        return (
            f"{self.a.name} {self.a.value:.2f} and {self.b.value:.2f}: difference {self.difference:+.2f} "
            f"(95% interval {self.low:+.2f} to {self.high:+.2f}, p = {self.p_value:.4f}, {self.samples} samples)"
        )


def compare_systems(
    system_a: Sequence[str],
    system_b: Sequence[str],
    references: Sequence[str],
    test: Test = "bootstrap",
    samples: int | None = None,
    seed: int = 12345,
    metric: str = "bleu",
) -> Comparison:
    """Compare two systems' outputs for the same lines, by `metric` "bleu", "chrf" or "exact".

    Args:
        samples: draws or trials; by default 1,000 for the bootstrap and 10,000 for randomisation.

    Raises:
        UserError: unequal numbers of lines, no lines, no samples, or an unknown test or metric.
    """
    if test not in get_args(Test):
        raise UserError(f'There is no test "{test}"; choose {" or ".join(get_args(Test))}.')
    samples = SAMPLES[test] if samples is None else samples
    if samples < 1:
        raise UserError(f"samples is {samples}; draw at least one, {SAMPLES[test]} as a rule.")
    a, b = (corpus_score(metric, system, references) for system in (system_a, system_b))
    statistics, score = STATISTICS[metric]
    single = [[line] for line in references]
    counts_a, counts_b = statistics(system_a, single), statistics(system_b, single)  # (lines, counts)
    observed = abs(a.value - b.value)

    lines, draws = len(references), samples if test == "bootstrap" else SAMPLES["bootstrap"]
    drawn = np.random.default_rng(seed).choice(lines, size=(draws, lines), replace=True)
    resampled = score(_resample(drawn, counts_a)) - score(_resample(drawn, counts_b))  # (draws,)
    low, high = np.percentile(resampled, [2.5, 97.5])
    if test == "bootstrap":
        by_chance = np.abs(resampled - resampled.mean())
    else:
        swap = np.random.default_rng(seed).integers(2, size=(samples, lines), dtype=bool)
        mixed = _weighted(swap, counts_a - counts_b) + counts_b.sum(0)  # a's counts where True, b's elsewhere
        by_chance = np.abs(score(mixed) - score(counts_a.sum(0) + counts_b.sum(0) - mixed))
    exceeding = int((by_chance >= observed - TIE).sum())
    return Comparison(
        a, b, a.value - b.value, float(low), float(high), (1 + exceeding) / (1 + samples), samples, seed, test
    )


def paired_bootstrap(
    system_a: Sequence[str],
    system_b: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
    metric: str = "bleu",
) -> Comparison:
    """`compare_systems` by paired bootstrap resampling."""
    return compare_systems(system_a, system_b, references, "bootstrap", samples, seed, metric)


def approximate_randomisation(
    system_a: Sequence[str],
    system_b: Sequence[str],
    references: Sequence[str],
    samples: int = 10_000,
    seed: int = 12345,
    metric: str = "bleu",
) -> Comparison:
    """`compare_systems` by approximate randomisation."""
    return compare_systems(system_a, system_b, references, "randomisation", samples, seed, metric)


def _resample(draws: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum the counts of the lines of every draw: (samples, lines) and (lines, counts) -> (samples, counts)."""
    totals = np.empty((len(draws), counts.shape[1]))
    for start in range(0, len(draws), DRAWS_AT_ONCE):
        chunk = draws[start : start + DRAWS_AT_ONCE]
        times = np.stack([np.bincount(draw, minlength=len(counts)) for draw in chunk])  # how often each line was drawn
        totals[start : start + len(chunk)] = times.astype(np.float64) @ counts
    return totals


def _weighted(chosen: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Sum the counts of the chosen lines: bool (samples, lines) and (lines, counts) -> (samples, counts)."""
    parts = [chosen[start : start + DRAWS_AT_ONCE] for start in range(0, len(chosen), DRAWS_AT_ONCE)]
    return np.concatenate([part.astype(np.float64) @ counts for part in parts])


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
    return min(max(1 - inside, 0.0), 1.0)  # in this order NaN stays NaN


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for their number, in the same order."""
    adjusted, largest, count = [0.0] * len(p_values), 0.0, len(p_values)
    for rank, index in enumerate(sorted(range(count), key=lambda index: p_values[index])):
        largest = max(largest, min(1.0, (count - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
