"""Intervals by the bootstrap."""

from __future__ import annotations

import math

import numpy as np

from harken.metrics.interval import bootstrap, resampled


def test_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    inside = 0
    for trial in range(100):
        found = bootstrap(random.random(200) < 0.7, samples=200, seed=trial)
        inside += found.low <= 0.7 <= found.high
    assert 87 <= inside <= 100


def test_groups_are_drawn_whole() -> None:
    one = bootstrap([5, 0], [5, 5])  # two sentences of five words, one right and one wrong
    assert (one.value, one.low, one.high) == (0.5, 0.0, 1.0)
    many = bootstrap([1] * 5 + [0] * 5)  # the same ten words, each for itself
    assert many.low > 0.0


def test_any_score_and_none_at_all() -> None:
    assert resampled(4, lambda rows: float(len(rows))).low == 4
    assert math.isnan(resampled(0, lambda rows: 0.0).value)
