"""Is one system better than another, or was the test set kind to it? Paired bootstrap resampling.

Draw as many sentences as the test set has, with replacement, many times over; score both systems on each draw. The
spread of the differences gives the 95% interval (its 2.5th to 97.5th percentile) and, moved so that it says "no
difference" on average, how often a difference as large as the observed one comes by chance:

    p = (1 + #{ |d_k| - mean |d| > |d| }) / (1 + samples)

Reference: Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation". The draws and the p-value
are those of sacrebleu's own test with the same seed; sacrebleu gives no interval of the difference. Sentences are
read once; a draw only adds up their n-gram counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harken.errors import UserError
from harken.metrics.bleu import Score, check_lines, corpus_score, metric_named

DRAWS_AT_ONCE = 64  # bounds memory: this many rows of indices are counted together


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

    @property
    def significant(self) -> bool:
        """Whether chance alone gives such a difference in fewer than 1 of 20 test sets."""
        return self.p_value < 0.05

    def __str__(self) -> str:
        return (
            f"{self.a.name} {self.a.value:.2f} and {self.b.value:.2f}: difference {self.difference:+.2f} "
            f"(95% interval {self.low:+.2f} to {self.high:+.2f}, p = {self.p_value:.4f}, {self.samples} samples)"
        )


def paired_bootstrap(
    system_a: Sequence[str],
    system_b: Sequence[str],
    references: Sequence[str],
    samples: int = 1000,
    seed: int = 12345,
    metric: str = "bleu",
) -> Comparison:
    """Compare two systems' outputs for the same lines, by `metric` "bleu" or "chrf".

    Raises:
        UserError: unequal numbers of lines, no lines, no samples, or an unknown metric.
    """
    if samples < 1:
        raise UserError(f"samples is {samples}; draw at least one, 1000 as a rule.")
    check_lines(system_a, references)
    check_lines(system_b, references)
    scorer = metric_named(metric)
    scores = [corpus_score(scorer, system, references) for system in (system_a, system_b)]
    counts = [
        np.asarray(scorer._extract_corpus_statistics(list(system), [list(references)]), dtype=np.float64)
        for system in (system_a, system_b)
    ]  # two of (lines, counts): n-grams found, n-grams, lengths
    lines = len(references)
    draws = np.random.default_rng(seed).choice(lines, size=(samples, lines), replace=True)
    drawn = [
        np.array([scorer._compute_score_from_stats(list(total)).score for total in _totals(draws, of_system)])
        for of_system in counts
    ]
    differences = drawn[0] - drawn[1]  # (samples,)
    observed = scores[0].value - scores[1].value
    sizes = np.abs(differences)
    by_chance = int(np.sum(sizes - sizes.mean() > abs(observed)))
    low, high = np.percentile(differences, [2.5, 97.5])
    return Comparison(
        a=scores[0],
        b=scores[1],
        difference=observed,
        low=float(low),
        high=float(high),
        p_value=(1 + by_chance) / (1 + samples),
        samples=samples,
        seed=seed,
    )


def _totals(draws: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Add up the counts of the lines of every draw: (samples, lines) and (lines, counts) -> (samples, counts)."""
    totals = np.empty((len(draws), counts.shape[1]))
    for start in range(0, len(draws), DRAWS_AT_ONCE):
        some = draws[start : start + DRAWS_AT_ONCE]
        times = np.stack([np.bincount(draw, minlength=len(counts)) for draw in some])  # how often each line was drawn
        totals[start : start + len(some)] = times.astype(np.float64) @ counts
    return totals
