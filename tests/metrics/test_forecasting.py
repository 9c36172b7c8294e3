"""Forecast metrics and baselines."""

import numpy as np
import pytest

from harken.errors import UserError
from harken.metrics.forecasting import exponential_smoothing, pinball, season_scale, seasonal_naive, smape


def test_the_scale_is_the_mean_seasonal_step() -> None:
    assert season_scale(np.array([1.0, 10.0, 3.0, 14.0]), 2) == 3.0
    assert season_scale(np.array([1.0, 2.0]), 12) == 1.0  # shorter than a season: its steps
    assert season_scale(np.array([4.0, 4.0, 4.0]), 1) == 1.0


def test_smape_and_pinball() -> None:
    assert smape(np.array([0.0, 3.0]), np.array([0.0, 1.0])).tolist() == [0.0, 100.0]
    assert pinball(np.array([1.0, 5.0]), np.array([3.0, 3.0]), 0.25).tolist() == [3.0, 1.0]


def test_seasonal_naive_repeats_what_is_known() -> None:
    values = np.arange(10.0)
    assert seasonal_naive(values, [6, 2], 4, 3).tolist() == [[3.0, 4.0, 5.0, 3.0], [1.0, 1.0, 1.0, 1.0]]


def test_exponential_smoothing_knows_no_future() -> None:
    pytest.importorskip("statsmodels")
    random = np.random.default_rng(0)
    values = 10 + np.cumsum(random.normal(size=60))
    other = values.copy()
    other[50:] += 100
    first, name = exponential_smoothing(values, 40, [45, 50], 3, 1)
    second, _ = exponential_smoothing(other, 40, [45, 50], 3, 1)
    assert name.startswith("ETS(")
    assert np.allclose(first, second)
    again, _ = exponential_smoothing(values, 40, [45, 50], 3, 1, refit=True)
    assert np.allclose(first, again, rtol=0.1)


def test_exponential_smoothing_finds_a_season() -> None:
    pytest.importorskip("statsmodels")
    values = 50 + 10 * np.sin(np.arange(72) * 2 * np.pi / 12) + np.random.default_rng(1).normal(scale=0.1, size=72)
    found, name = exponential_smoothing(values, 60, [60], 12, 12)
    assert name[-2] in "AM"
    assert np.abs(found[0] - values[60:]).max() < 1.0


def test_too_few_values_are_refused() -> None:
    pytest.importorskip("statsmodels")
    with pytest.raises(UserError, match="no exponential smoothing can be fitted to 2 values"):
        exponential_smoothing(np.array([1.0, 2.0]), 2, [2], 1, 1)
