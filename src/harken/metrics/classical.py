"""What forecasters have to beat: the last season again, and exponential smoothing as statsmodels fits it.

    seasonal naive           f_{t+k} = y_{t+k-m}
    exponential smoothing    every form with error, trend (none, additive, damped) and season (none, additive,
                             multiplicative) that the values allow; the one with the smallest AICc is taken

Hyndman et al. (2008), "Forecasting with Exponential Smoothing". The fit may be made once, or anew at every origin.

>>> import numpy as np
>>> seasonal_naive(np.array([1.0, 2.0, 3.0, 4.0]), [4], 3, 2).tolist()
[[3.0, 4.0, 3.0]]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from harken.errors import UserError

LONGEST_SEASON = 24  # a season of more steps has more states than a fit bears
EXTRA = "pip install 'harken[forecast]'"


def seasonal_naive(values: np.ndarray, origins: Sequence[int], steps: int, season: int) -> np.ndarray:
    """(origins, steps): at origin o, values[:o] are known; the last value again where there is no season yet."""
    rows = []
    for origin in origins:
        back = season if origin >= season else 1
        rows.append(values[[origin - back + step % back for step in range(steps)]])
    return np.stack(rows) if rows else np.zeros((0, steps))


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
    """Forecasts (origins, steps) by the form with the smallest AICc on values[:fitted], and what it is called.

    Args:
        refit: fit the numbers of the chosen form anew at every origin; else they stay as fitted and only the states
            go on with the values.

    Raises:
        UserError: statsmodels is not installed.
    """
    model = _models()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        form, best = _chosen(model, values[:fitted], season)
        rows = []
        whole = None if refit else model(values, **form).smooth(best)
        for origin in origins:
            if whole is None:
                found = model(values[:origin], **form).fit(disp=False).forecast(steps)
            elif origin < len(values):
                found = whole.predict(start=origin, end=origin + steps - 1, dynamic=0)
            else:
                found = whole.forecast(steps)
            rows.append(np.asarray(found, dtype=np.float64))
            progress(1)
    return np.stack(rows), _name(form)


def available() -> bool:
    """Whether statsmodels is installed."""
    try:
        _models()
    except UserError:
        return False
    return True


def _models() -> Any:
    try:
        from statsmodels.tsa.exponential_smoothing.ets import ETSModel
    except ImportError:
        raise UserError(f"exponential smoothing is fitted by statsmodels, which is not installed: {EXTRA}") from None
    return ETSModel


def _chosen(model: Any, values: np.ndarray, season: int) -> tuple[dict[str, Any], Any]:
    found: list[tuple[float, int, dict[str, Any], Any]] = []
    for number, form in enumerate(_forms(values, season)):
        try:
            fit = model(values, **form).fit(disp=False)
        except (ValueError, np.linalg.LinAlgError):  # too few values for so many numbers
            continue
        if np.isfinite(fit.aicc):
            found.append((float(fit.aicc), number, form, fit.params))
    if not found:
        raise UserError(f"no exponential smoothing can be fitted to {len(values)} values; give a longer series")
    return min(found)[2:]


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
