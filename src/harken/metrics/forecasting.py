"""How good forecasts are.

    MASE      mean |y - f| / mean over the training part of |y_t - y_{t-m}|     below 1: better than repeating a season
    sMAPE     mean 200 |y - f| / (|y| + |f|)                                    in percent, 0 to 200
    RMSE      root of the mean squared error, in the units of the series
    pinball   mean 2 max(q e, (q - 1) e) of a quantile q, e = y - f             of the median: the absolute error
    coverage  share of values between the lowest and the highest quantile

Hyndman and Koehler (2006); Koenker and Bassett (1978).

>>> import numpy as np
>>> season_scale(np.array([1.0, 5.0, 2.0, 7.0]), 2)
1.5
>>> smape(np.array([100.0]), np.array([50.0])).round(1).tolist()
[66.7]
>>> pinball(np.array([4.0]), np.array([3.0]), 0.9).tolist()
[1.8]
"""

from __future__ import annotations

import numpy as np


def season_scale(values: np.ndarray, season: int) -> float:
    """What MASE divides by; of a series shorter than its season or without change, that of its steps, or 1."""
    for gap in (season, 1):
        if len(values) > gap and (scale := float(np.abs(values[gap:] - values[:-gap]).mean())) > 0:
            return scale
    return 1.0


def smape(truth: np.ndarray, forecast: np.ndarray) -> np.ndarray:
    """Of every value, in percent; 0 where both are 0."""
    size = np.abs(truth) + np.abs(forecast)
    return np.where(size > 0, 200 * np.abs(truth - forecast) / np.where(size > 0, size, 1.0), 0.0)


def pinball(truth: np.ndarray, forecast: np.ndarray, quantile: float) -> np.ndarray:
    """Of every value."""
    error = truth - forecast
    return 2 * np.maximum(quantile * error, (quantile - 1) * error)
