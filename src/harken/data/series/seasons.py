"""The season of series: the forecast that repeats it, the scale of its errors, and the choice on validation data.

>>> season_scale(np.array([1.0, 5.0, 2.0, 7.0]), 2)
1.5
>>> seasonal_naive(np.array([1.0, 2.0, 3.0, 4.0]), [4], 3, 2).tolist()
[[3.0, 4.0, 3.0]]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NEARLY = 1.02  # times the smallest error: a shorter season that is nearly as good is taken


def season_scale(values: np.ndarray, season: int) -> float:
    """The denominator of MASE; that of season 1 for a series shorter than its season, 1 for a constant series.

    Differences of values that are missing (NaN) do not count.
    """
    for gap in (season, 1):
        differences = np.abs(values[gap:] - values[:-gap])
        differences = differences[~np.isnan(differences)]
        if len(differences) and (scale := float(differences.mean())) > 0:
            return scale
    return 1.0


def seasonal_naive(values: np.ndarray, origins: Sequence[int], steps: int, season: int) -> np.ndarray:
    """(origins, steps): at origin o, values[:o] are known; the last value again where there is no season yet."""
    starts = np.asarray(origins, dtype=np.int64)[:, None]
    back = np.where(starts >= season, season, 1)
    return np.asarray(values[starts - back + np.arange(steps) % back], dtype=np.float64)


def choose_season(
    series: Sequence[tuple[np.ndarray, np.ndarray]],
    parts: Sequence[tuple[int, int]],
    steps: int,
    seasons: Sequence[int],
) -> tuple[int, dict[int, float]]:
    """The season whose seasonal naive forecast has the smallest error on the validation parts, and all errors.

    Args:
        series: the values of each, and which of them are measured and count.
        parts: the first and the last + 1 row of the validation part of each.
        steps: the horizon.
        seasons: candidates; those that the training part of no series has twice are left out.

    Each error is scaled by the mean difference of neighbours in the training part.

    >>> wave = np.sin(np.arange(60) * 2 * np.pi / 7)
    >>> choose_season([(wave, np.ones(60, dtype=bool))], [(40, 60)], 7, [1, 7, 12])[0]
    7
    """
    errors: dict[int, float] = {}
    for season in seasons:
        total = count = 0.0
        for (values, measured), (first, end) in zip(series, parts, strict=True):
            if season > 1 and first < 2 * season:
                continue
            origins = np.arange(max(1, first), end)
            rows = origins[:, None] + np.arange(steps)
            counted = (rows < end) & measured[np.minimum(rows, end - 1)] & measured[origins - 1][:, None]
            misses = np.abs(values[np.minimum(rows, end - 1)] - seasonal_naive(values, origins.tolist(), steps, season))
            scale = season_scale(np.where(measured, values, np.nan)[:first], 1)
            total, count = total + float((misses * counted).sum()) / scale, count + float(counted.sum())
        if count:
            errors[season] = total / count
    best = min(errors.values(), default=0.0)
    return min((season for season, error in errors.items() if error <= NEARLY * best), default=1), errors
