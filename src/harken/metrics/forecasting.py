"""Forecast metrics, and the classical baselines that a forecaster has to beat.

    MASE      mean |y - f| / mean over the training part of |y_t - y_{t-m}|     below 1: better than repeating a season
    sMAPE     mean 200 |y - f| / (|y| + |f|)                                    in percent, 0 to 200
    RMSE      root of the mean squared error, in the units of the series
    pinball   mean 2 max(q e, (q - 1) e) of a quantile q, e = y - f             of the median: the absolute error
    coverage  share of values between the lowest and the highest quantile

Hyndman and Koehler (2006); Koenker and Bassett (1978). The baselines:

    naive                    f_{t+k} = y_t
    seasonal naive           f_{t+k} = y_{t+k-m}
    drift                    f_{t+k} = y_t + k (y_t - y_1) / (t - 1)
    mean                     f_{t+k} = mean of y_1 .. y_t
    exponential smoothing    every form with error, trend (none, additive, damped) and season (none, additive,
                             multiplicative) that the values allow, fitted by statsmodels; the smallest AICc is chosen

Hyndman et al. (2008), "Forecasting with Exponential Smoothing". The fit is made once, or again at every origin.

>>> import numpy as np
>>> smape(np.array([100.0]), np.array([50.0])).round(1).tolist()
[66.7]
>>> pinball(np.array([4.0]), np.array([3.0]), 0.9).tolist()
[1.8]
>>> {name: rows.tolist() for name, rows in naive_forecasts(np.array([1.0, 2.0, 6.0]), [3], 2, 1).items()}
{'seasonal naive': [[6.0, 6.0]], 'drift': [[8.5, 11.0]], 'mean': [[3.0, 3.0]]}
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harken.data.series.seasons import season_scale, seasonal_naive
from harken.errors import UserError, require_extra

__all__ = [
    "exponential_smoothing",
    "is_available",
    "naive_forecasts",
    "pinball",
    "season_scale",
    "seasonal_naive",
    "smape",
]

LONGEST_SEASON = 24  # a longer season has more states than can be fitted


def smape(truth: np.ndarray, forecast: np.ndarray) -> np.ndarray:
    """The symmetric percentage error of every value; 0 where both are 0."""
    size = np.abs(truth) + np.abs(forecast)
    return np.where(size > 0, 200 * np.abs(truth - forecast) / np.where(size > 0, size, 1.0), 0.0)


def pinball(truth: np.ndarray, forecast: np.ndarray, quantile: float) -> np.ndarray:
    """The pinball loss of every value."""
    error = truth - forecast
    return 2 * np.maximum(quantile * error, (quantile - 1) * error)


def naive_forecasts(values: np.ndarray, origins: Sequence[int], steps: int, season: int) -> dict[str, np.ndarray]:
    """(origins, steps) of every simple method, by name; at origin o >= 1, values[:o] are known."""
    starts = np.asarray(origins, dtype=np.int64)[:, None]
    last, first = values[starts - 1], values[:1]
    slope = (last - first) / np.maximum(starts - 1, 1)
    means = (np.cumsum(values) / np.arange(1, len(values) + 1))[starts - 1]
    ahead = np.arange(1, steps + 1)
    forecasts = {"seasonal naive": seasonal_naive(values, origins, steps, season)}
    if season > 1:
        forecasts["naive"] = np.broadcast_to(last, (len(starts), steps))
    return forecasts | {"drift": last + slope * ahead, "mean": np.broadcast_to(means, (len(starts), steps))}


def exponential_smoothing(
    values: np.ndarray,
    fitted: int,
    origins: Sequence[int],
    steps: int,
    season: int,
    *,
    refit: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[np.ndarray, str]:
    """Forecasts (origins, steps) by the form with the smallest AICc on values[:fitted], and the name of the form.

    Args:
        refit: fit the parameters of the chosen form again at every origin; otherwise they stay as fitted and only the
            states are updated.

    Raises:
        UserError: statsmodels is not installed.
    """
    model = _ets_model()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        form, best = _choose_form(model, values[:fitted], season)
        rows = []
        whole = None if refit else model(values, **form).smooth(best)
        for origin in origins:
            if whole is None:
                forecast = model(values[:origin], **form).fit(disp=False).forecast(steps)
            elif origin < len(values):
                forecast = whole.predict(start=origin, end=origin + steps - 1, dynamic=0)
            else:
                forecast = whole.forecast(steps)
            rows.append(np.asarray(forecast, dtype=np.float64))
            progress(1)
    return np.stack(rows), _name(form)


def is_available() -> bool:
    """Whether statsmodels is installed."""
    try:
        _ets_model()
    except UserError:
        return False
    return True


def _ets_model() -> Any:
    require_extra("statsmodels", "forecast", "exponential smoothing")
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    return ETSModel


def _choose_form(model: Any, values: np.ndarray, season: int) -> tuple[dict[str, Any], Any]:
    fits: list[tuple[float, int, dict[str, Any], Any]] = []
    for number, form in enumerate(_forms(values, season)):
        try:
            fit = model(values, **form).fit(disp=False)
        except (ValueError, np.linalg.LinAlgError):  # too few values for so many parameters
            continue
        if np.isfinite(fit.aicc):
            fits.append((float(fit.aicc), number, form, fit.params))
    if not fits:
        raise UserError(f"no exponential smoothing can be fitted to {len(values)} values; give a longer series")
    return min(fits)[2:]


def _forms(values: np.ndarray, season: int) -> Iterator[dict[str, Any]]:
    positive = bool((values > 0).all())
    seasons: list[str | None] = [None]
    if 2 <= season <= LONGEST_SEASON and len(values) >= 2 * season:
        seasons += ["add", *(["mul"] if positive else [])]
    for trend, damped in ((None, False), ("add", False), ("add", True)):
        for seasonal in seasons:
            for error in ("add", "mul") if positive else ("add",):
                if error == "mul" or seasonal != "mul":  # additive errors with factors are not stable
                    periods = season if seasonal else None
                    yield {
                        "error": error,
                        "trend": trend,
                        "damped_trend": damped,
                        "seasonal": seasonal,
                        "seasonal_periods": periods,
                    }


def _name(form: dict[str, Any]) -> str:
    letter = {"add": "A", "mul": "M", None: "N"}
    return (
        f"ETS({letter[form['error']]},{letter[form['trend']]}{'d' * form['damped_trend']},{letter[form['seasonal']]})"
    )
