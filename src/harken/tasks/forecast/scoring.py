"""The scores of a forecaster, beside simple forecasts and fitted exponential smoothing.

It is scored at rolling origins over a held-out part. At every row of the part, each method knows all rows before and
forecasts up to `horizon` steps, no further than the part's end. MASE is scaled by the training part's seasonal
differences, the same for all. Exponential smoothing is chosen and fitted on all rows before the part and, where that is
quick, fitted anew at every origin. Values that were filled in are not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harken.data.series.series import Series
from harken.errors import UserError, missing_extra
from harken.metrics.forecasting import (
    exponential_smoothing,
    is_available,
    naive_forecasts,
    pinball,
    season_scale,
    smape,
)
from harken.metrics.interval import Interval, bootstrap, resampled
from harken.tasks.baselines import COUNT, Baseline, compare
from harken.tasks.forecast.forecaster import Forecaster
from harken.tasks.forecast.task import ForecastTask
from harken.tasks.forecast.windows import Cut, Windows, origins_of
from harken.tasks.predictor import Progress
from harken.tasks.scores import Metric, Scores
from harken.training.task import to_device

MAX_ROWS = 20  # series whose scores are printed
SIMPLE = {
    "naive": "the last value",
    "drift": "the line from the first to the last value",
    "mean": "of all values before",
}
AT_ONCE = 256  # windows
REFITTED = 60  # origins of all series together up to which exponential smoothing is fitted anew at each


@dataclass(frozen=True)
class Rolled:
    """Forecasts of one part of all series; rows are origins."""

    truth: np.ndarray  # (O, T)
    quantiles: np.ndarray  # (O, T, Q)
    counted: np.ndarray  # (O, T) bool
    scale: np.ndarray  # (O, 1), each series' own
    owner: np.ndarray  # (O,)
    origin: np.ndarray  # (O,)


def roll(
    model: Forecaster, series: Sequence[Series], cuts: Sequence[Cut], part: str, progress: Callable[[int], None]
) -> Rolled:
    """Ask the model at every origin of a part."""
    data = model.recipe.data
    windows = Windows(
        series, model.transform, origins_of(series, cuts, part, data.shortest, data.horizon), data.window, data.horizon
    )
    if not len(windows):
        raise UserError(f"the {part} part has no rows; set data.{part} and train anew, or give a file")

    def run(indices: np.ndarray) -> Iterable[tuple[np.ndarray, ...]]:
        batch = to_device(windows.batch(indices), model.device)
        outputs = model.model.unroll(batch.past, batch.lengths, batch.future)  # (B, T, Q)
        quantiles, truth = (model.transform.undo(values.double().cpu().numpy()) for values in (outputs, batch.truth))
        return zip(truth, quantiles, batch.counted.cpu().numpy() > 0, strict=True)

    starts = range(0, len(windows), AT_ONCE)
    batches = [np.arange(start, min(start + AT_ONCE, len(windows))) for start in starts]
    truth, quantiles, counted = (np.stack(part) for part in zip(*model.map(batches, run, progress), strict=True))
    scales = np.array(
        [season_scale(values.observed[: at.train], data.season) for values, at in zip(series, cuts, strict=True)]
    )
    return Rolled(truth, quantiles, counted, scales[windows.owner][:, None], windows.owner, windows.origin)


def score(
    model: Forecaster,
    series: Sequence[Series],
    cuts: Sequence[Cut],
    part: str,
    progress: Progress,
) -> Scores:
    """All metrics, with those of the methods to beat beside them."""
    rolled = roll(model, series, cuts, part, progress)
    levels = model.model.quantiles
    median = rolled.quantiles[..., levels.index(0.5)]
    metrics = [Metric.of("MASE", _mase(rolled, median), "below 1: better than seasonal naive was on the training part")]
    to_beat = _to_beat(model, series, cuts, part, rolled)
    metrics += [Metric.of(f"MASE {name}", _mase(rolled, forecasts), note) for name, forecasts, note in to_beat]
    if not is_available():
        note = str(missing_extra("statsmodels", "forecast", "exponential smoothing beside it"))
        metrics[-1] = Metric(**{**vars(metrics[-1]), "note": note})
    counts = rolled.counted.sum(1)
    summed = (smape(rolled.truth, median) * rolled.counted).sum(1)
    metrics.append(Metric.of("sMAPE", bootstrap(summed, counts), "percent", digits=2))
    squares = ((rolled.truth - median) ** 2 * rolled.counted).sum(1)
    error = resampled(len(counts), lambda rows: float(np.sqrt(squares[rows].sum() / counts[rows].sum())))
    metrics.append(Metric.of("RMSE", error, "in the units of the series"))
    if len(levels) > 1:
        losses = np.mean([pinball(rolled.truth, rolled.quantiles[..., at], q) for at, q in enumerate(levels)], axis=0)
        scaled = (losses / rolled.scale * rolled.counted).sum(1)
        metrics.append(Metric.of("pinball", bootstrap(scaled, counts), f"mean over quantiles {levels}, scaled as MASE"))
        inside = (rolled.quantiles[..., 0] <= rolled.truth) & (rolled.truth <= rolled.quantiles[..., -1])
        note = f"between quantiles {levels[0]} and {levels[-1]}; {levels[-1] - levels[0]:.0%} is right"
        metrics.append(Metric.of("coverage", bootstrap((inside & rolled.counted).sum(1), counts), note))
    picture = model.forecast_at(series[int(rolled.owner[0])], int(rolled.origin[0])).picture()
    details: dict[str, Any] = {"part": part, "series_count": len(series)}
    notes = _filled_note(series, cuts, part, model.recipe.data.fill)
    if len(series) > 1:
        methods = [("MASE", median), *((f"MASE {name}", forecasts) for name, forecasts, _ in to_beat)]
        details["by_series"] = _by_series(series, rolled, methods)
        metrics += _series_rows(details["by_series"])
    scores = Scores(len(rolled.owner), "origins", metrics, {"forecast": picture}, details, notes)
    naive = {"test": {"mase": scores["MASE seasonal naive"], COUNT: scores.count}}
    return compare(scores, None, None, lambda: Baseline("seasonal naive", "mase", naive, 0, mode="min"), "MASE")


def naive_baseline(task: ForecastTask, series: Sequence[Series], season: int) -> Baseline:
    """MASE of the simple forecasts on the validation windows of a task; the seasonal naive one is the baseline."""
    windows, errors = task.valid, dict[str, float]()
    for number, values in enumerate(series):
        own = np.flatnonzero(windows.owner == number)
        if not len(own):
            continue
        origins, end = windows.origin[own], windows.end[own]
        rows = origins[:, None] + np.arange(windows.horizon)
        counted = (rows < end[:, None]) & values.measured[np.minimum(rows, len(values) - 1)]
        truth = values.target[np.minimum(rows, len(values) - 1)]
        for name, forecasts in naive_forecasts(values.target, origins.tolist(), windows.horizon, season).items():
            scaled = float((np.abs(truth - forecasts) * counted).sum()) / task.scales[number]
            errors[name] = errors.get(name, 0.0) + scaled
    count = max(1, int(windows.steps.sum()))
    mase = {name: float(error) / count for name, error in errors.items()}
    scores = {"mase": mase.pop("seasonal naive"), **mase, COUNT: len(windows)}
    return Baseline("seasonal naive", "mase", {"valid": scores}, len(task.train), mode="min")


def _filled_note(series: Sequence[Series], cuts: Sequence[Cut], part: str, fill: str) -> list[str]:
    """Says how many values of a part were filled in, and so are not scored."""
    count = sum(int((~values.measured[slice(*at.span(part))]).sum()) for values, at in zip(series, cuts, strict=True))
    return [f"{count:,} values of the {part} part were missing and filled ({fill}); they are not scored"] * bool(count)


def _by_series(
    series: Sequence[Series], rolled: Rolled, methods: Sequence[tuple[str, np.ndarray]]
) -> dict[str, dict[str, float]]:
    """MASE of every method on each series that has origins."""
    scores: dict[str, dict[str, float]] = {}
    for number, values in enumerate(series):
        own = rolled.owner == number
        counted = rolled.counted[own]
        if counted.any():
            scores[values.name] = {
                name: float(
                    (np.abs(rolled.truth[own] - forecasts[own]) / rolled.scale[own] * counted).sum() / counted.sum()
                )
                for name, forecasts in methods
            }
    return scores


def _series_rows(by_series: Mapping[str, Mapping[str, float]]) -> list[Metric]:
    """A row for each series, the first of them where there are many; all are in the details."""
    return [
        Metric(f"MASE of {name}", row["MASE"], note=f"seasonal naive {row['MASE seasonal naive']:.3f}", key=None)
        for name, row in list(by_series.items())[:MAX_ROWS]
    ]


def _to_beat(
    model: Forecaster, series: Sequence[Series], cuts: Sequence[Cut], part: str, rolled: Rolled
) -> list[tuple[str, np.ndarray, str]]:
    """Forecasts (O, T) of the usual methods at the same origins."""
    data, simple, smoothed, forms = model.recipe.data, list[dict[str, np.ndarray]](), [], []
    with_smoothing = is_available()
    for number, (values, at) in enumerate(zip(series, cuts, strict=True)):
        origins = rolled.origin[rolled.owner == number].tolist()
        if not origins:
            continue
        simple.append(naive_forecasts(values.target, origins, data.horizon, data.season))
        if with_smoothing:
            refit, end = len(rolled.owner) <= REFITTED, at.span(part)[1]
            fitted = max(at.span(part)[0], origins[0])
            known = values.target[:end]
            forecasts, form = exponential_smoothing(known, fitted, origins, data.horizon, data.season, refit=refit)
            smoothed.append(forecasts)
            forms.append(form + (", fitted anew at every origin" if refit else ", fitted once"))
    ago = "a step ago: there is no season" if data.season == 1 else f"a season of {data.season} steps ago"
    notes = {"seasonal naive": ago}
    baselines = [
        (name, np.concatenate([forecasts[name] for forecasts in simple]), notes.get(name, SIMPLE.get(name, "")))
        for name in simple[0]
    ]
    if smoothed:
        note = forms[0] if len(forms) == 1 else f"chosen by AICc for each of {len(forms)} series"
        baselines.append(("exponential smoothing", np.concatenate(smoothed), note))
    return baselines


def _mase(rolled: Rolled, forecasts: np.ndarray) -> Interval:
    errors = (np.abs(rolled.truth - forecasts) / rolled.scale * rolled.counted).sum(1)
    return bootstrap(errors, rolled.counted.sum(1))
