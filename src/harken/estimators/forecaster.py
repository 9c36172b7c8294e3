"""`harken.SequenceForecaster`: what comes after a window of the past.

    from harken import SequenceForecaster
    model = SequenceForecaster(horizon=6, season=12).fit(series)     # one series, or a list of them
    model.predict()                                                  # the 6 values after its end
    model.predict(windows)                                           # (N, T) -> (N, 6)

For pipelines and searches, cut the series into rows first, and split them by time (`TimeSeriesSplit`):

    X, y = harken.estimators.forecaster.windows(series, window=24, horizon=6)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from harken.data.series.series import Series
from harken.estimators.base import SequenceEstimator
from harken.metrics.forecasting import season_scale
from harken.tasks.forecast.job import prepare_series
from harken.tasks.job import Prepared


@dataclass(eq=False, repr=False)
class SequenceForecaster(RegressorMixin, SequenceEstimator):
    """Reads windows of the past and gives the median of the coming steps.

    Args:
        horizon: steps that are forecast, where `fit` is given series; with rows, y says it.
        season: steps after which the series is alike; 1: none.
        window: steps that are read, where `fit` is given series.
        base: smoothing, seasonal, last or none: what the network corrects; `residual` lets it add to that.
        members: networks whose mean is the forecast.
        max_iter: updates; `batch_size` windows each.
    """

    horizon: int = 6
    season: int = 1
    window: int = 24
    cell: str = "gru"
    width: int = 32
    layers: int = 1
    dropout: float = 0.0
    base: str = "smoothing"
    residual: bool = True
    members: int = 1
    max_iter: int = 100
    batch_size: int = 64
    learning_rate: float = 0.005
    device: str = "cpu"
    random_state: Any = None

    task = "forecast"

    def fit(self, X: Any, y: Any = None) -> SequenceForecaster:
        """A series (or a list of several), or rows of the past (N, T) with what came, (N,) or (N, horizon)."""
        if y is None:
            return self._fit_series(X)
        table, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self.flat_ = targets.ndim == 1
        targets = np.asarray(targets, dtype=np.float64).reshape(len(table), -1)
        self.horizon_, self.window_ = targets.shape[1], table.shape[1]
        series = [_series(np.concatenate(row)) for row in zip(table, targets, strict=True)]
        end = self.window_ + self.horizon_
        self._run(series, [(number, self.window_, end) for number in range(len(series))])
        return self

    def _fit_series(self, data: Any) -> SequenceForecaster:
        series = [_series(values) for values in _several(data)]
        shortest = min(map(len, series))
        self.horizon_, self.window_ = self.horizon, min(self.window, max(2, shortest - 2))
        self.n_features_in_, self.flat_ = self.window_, False
        self._run(series, None)
        return self

    def _run(self, series: list[Series], origins: list[tuple[int, int, int]] | None) -> None:
        sections = {
            "data": {
                "corpus": "seasons",  # a stand-in: the series are in memory
                "window": max(2, self.window_),
                "horizon": self.horizon_,
                "season": self.season,
                "valid_size": 0,
                "test_size": 0,
                "shortest": 1,
                "transform": "auto" if origins is None else "none",
            },
            "model": {
                "base": self.base,
                "residual": self.residual,
                "members": self.members,
                "quantiles": [0.1, 0.5, 0.9],
            },
        }

        def prepare(recipe: Any, folder: Path) -> Prepared:
            return prepare_series(recipe, series, folder, origins)

        self._train_on(sections, max(2, self.window_), prepare)

    def predict(self, X: Any = None) -> np.ndarray:
        """Rows of the past (N, T) -> (N, horizon), or (N,) where y was; without X, after the end of the series."""
        forecaster = self.model
        if X is None:
            pasts = [series.target for series in forecaster.ends.series]
            forecasts = np.stack([self._ahead(past[None, -self.window_ :])[0] for past in pasts])
            return forecasts[0] if len(forecasts) == 1 else forecasts
        if is_column(X) and self.n_features_in_ > 1 and not self.flat_:
            X = np.asarray(X)[:, 0]
        if isinstance(X, np.ndarray | list) and np.ndim(X) == 1 and len(X) and np.isscalar(X[0]) and not self.flat_:
            forecasts = self._ahead(check_array([X], dtype=np.float64)[:, -self.window_ :])
            return np.asarray(forecasts[0])
        table = validate_data(self, X, dtype=np.float64, reset=False)
        forecasts = self._ahead(table)
        return forecasts[:, 0] if self.flat_ else forecasts

    def _ahead(self, past: np.ndarray) -> np.ndarray:
        forecaster = self.model
        values = torch.from_numpy(forecaster.transform.apply(past))[..., None].to(forecaster.device)
        future = values.new_zeros(len(values), self.horizon_, 0)
        with torch.no_grad():
            median = forecaster.model.unroll(values, None, future)[..., forecaster.model.quantiles.index(0.5)]
        forecasts: np.ndarray = forecaster.transform.undo(median.cpu().numpy())
        return forecasts

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² of rows; of a series, minus the MASE over all its origins, so that more is better."""
        if y is not None:
            return float(super().score(X, y, sample_weight))
        check_is_fitted(self, "files_")
        errors, scales = [], []
        for values in _several(X):
            rows, targets = windows(values, self.window_, self.horizon_)
            errors.append(np.abs(self._ahead(rows) - targets).mean())
            scales.append(season_scale(values, self.season))
        return -float(np.mean(np.array(errors) / np.array(scales)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # features are no past: their order means nothing in such tests
        tags.target_tags.required = False
        return tags


def windows(series: Any, window: int, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """A series as rows of the past (N, window) and what came (N, horizon), in the order of time.

    >>> X, y = windows([1, 2, 3, 4, 5], window=2, horizon=2)
    >>> X.tolist(), y.tolist()
    ([[1.0, 2.0], [2.0, 3.0]], [[3.0, 4.0], [4.0, 5.0]])
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) < window + horizon:
        raise ValueError(f"the series has {len(values)} values; a window of {window} and {horizon} steps need more")
    rows = np.lib.stride_tricks.sliding_window_view(values, window + horizon)
    return rows[:, :window].copy(), rows[:, window:].copy()


def _series(values: np.ndarray) -> Series:
    empty = np.zeros((len(values), 0))
    return Series("series", values, empty, empty)


def _several(data: Any) -> list[np.ndarray]:
    """One series, also as a column of a table, or a list of them."""
    if data is None or not len(data):
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    several = data if isinstance(data, list) and not np.isscalar(data[0]) else [data]
    rows = [values[:, 0] if is_column(values) else values for values in map(np.asarray, several)]
    return [check_array(values[None], dtype=np.float64)[0] for values in rows]


def is_column(data: Any) -> bool:
    """Whether it is an array or a frame of one column."""
    shape: Sequence[int] = getattr(data, "shape", ())
    return len(shape) == 2 and shape[0] > 1 and shape[1] == 1
