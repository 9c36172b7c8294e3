"""From a recipe for forecasting to a run, from a folder to a `Forecaster`, and how good it is.

It is scored at rolling origins over a held-out part, beside the last season again and fitted exponential smoothing. At
every row of the part, each method knows all rows before and forecasts up to `horizon` steps, no further than the
part's end. MASE is scaled by the training part's seasonal differences, the same for all. Exponential smoothing is
chosen and fitted on all rows before the part and, where that is quick, fitted anew at every origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harken.data.series.series import Series, read_series
from harken.errors import UserError, missing_extra
from harken.inspection.pictures.picture import Picture
from harken.metrics.forecasting import (
    exponential_smoothing,
    is_available,
    pinball,
    season_scale,
    seasonal_naive,
    smape,
)
from harken.metrics.interval import Interval, bootstrap, resampled
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.baselines import BASELINE, COUNT, Baseline, compare
from harken.tasks.forecast.ends import ENDS, Ends
from harken.tasks.forecast.forecast import Forecasts
from harken.tasks.forecast.forecaster import Forecaster
from harken.tasks.forecast.interface import INTERFACE, ForecastOptions, PastRequest
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.task import ForecastTask
from harken.tasks.forecast.windows import (
    Cut,
    CutSeries,
    Transform,
    Windows,
    cut,
    find_part,
    load_series,
    name_of,
    origins_of,
)
from harken.tasks.interface import Form
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.predictor import Progress
from harken.tasks.results import Show
from harken.tasks.scores import Metric, Scores
from harken.training.task import to_device

WINDOWS = 8  # of a part of a series whose gradients are looked at


MAX_LISTED = 200  # series that the studio offers
COVARIATES_END = (
    "The covariates known ahead end with the data, so the held-out part is forecast (--test); for the future, give a "
    "file with rows that have covariates and no target"
)


class ForecastJob(Job):
    """See `harken.tasks.job`."""

    predictor = Forecaster
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = (ENDS, BASELINE)
    interface = INTERFACE
    cuts_at_end = True
    table_key = "train"
    table_instead_of = ("corpus",)

    def load_data(self, recipe: ForecastRecipe) -> CutSeries:
        series = load_series(recipe.data)
        return CutSeries(series, [cut(part, recipe.data) for part in series])

    def load_table(self, recipe: ForecastRecipe, table: dict[str, list[Any]]) -> CutSeries:
        series = [part.rows(0, recipe.data.rows or len(part)) for part in read_series(table, recipe.data.layout)]
        return CutSeries(series, [cut(part, recipe.data) for part in series])

    def prepare_data(self, recipe: ForecastRecipe, data: CutSeries, folder: Path, resuming: bool) -> Prepared:
        series = data.series
        prepared = prepare_series(recipe, series, folder, resuming=resuming)
        task = prepared.task
        assert isinstance(task, ForecastTask)
        learnt = BASELINE.learn_or_load(folder, resuming, lambda: naive_baseline(task, series, recipe.data.season))
        return prepared.with_baseline(learnt)

    def named_split(self, model: Forecaster, split: str | None) -> tuple[str, tuple[Sequence[Series], str]]:
        """All series of the model, and the part of them that a split names."""
        part = find_part(model.recipe.data, split)
        return part, (load_series(model.recipe.data), part)

    def read_files(
        self, model: Forecaster, files: Sequence[Path], reading: FileReading
    ) -> tuple[tuple[Sequence[Series], str], list[str]]:
        series = [part for file in files for part in read_series(file, model.recipe.data.layout)]
        return (series, find_part(model.recipe.data, None)), []

    def score(self, model: Forecaster, examples: tuple[Sequence[Series], str], progress: Progress) -> Scores:
        series, split = examples
        return score(model, series, [cut(part, model.recipe.data) for part in series], split, progress)

    def predict(
        self,
        model: Forecaster,
        examples: Sequence[PastRequest],
        options: ForecastOptions,
        progress: Progress,
    ) -> list[Forecasts]:
        results = []
        for past in examples:
            at, notes = "test" if options.test else options.at, []
            if past.past is None and at == "end" and not options.end and model.named_ahead:
                notes.append(COVARIATES_END)
                at = "test"
            forecasts = model.forecast_all(past.past, past.covariates, options.steps, at=at)
            if options.series is not None:
                names = ", ".join(forecast.name for forecast in forecasts[:8])
                forecasts = [forecast for forecast in forecasts if forecast.name == options.series]
                if not forecasts:
                    raise UserError(f"--series {options.series} is not there; there are {names}")
            results.append(Forecasts(forecasts, notes))
        return results

    def form(self, model: Forecaster) -> Form:
        names = [series.name for series in model.ends.series][:MAX_LISTED]
        return Form(names[0] if names else "", INTERFACE.input.endings, names)

    def show(self, model: Forecaster, text: str, options: ForecastOptions) -> Show:
        return Show(picture=self.attention_figure(model, self.example_of(model, text)))

    def figure(self, results: Sequence[Forecasts]) -> Picture:
        return results[0].forecasts[0].picture()

    def attention_figure(self, model: Forecaster, example: str) -> Picture:
        return model.attention_figure(example)

    def examples(self, model: Forecaster, split: str) -> list[Any]:
        """Pasts that end at rows of a part, one a window, for `harken inspect --gradients`."""
        data, examples = model.recipe.data, []
        part = find_part(data, split)
        for series in load_series(data):
            first, end = cut(series, data).span(part)
            origins = range(max(first, data.window), end, max(1, (end - first) // WINDOWS))
            examples += [series.rows(origin - data.window, origin) for origin in origins]
        return examples

    def validation(self, best: dict[str, Any]) -> str:
        return f"MASE {best.get('mase', float('nan')):.4f}, scaled pinball loss {best.get('pinball', float('nan')):.4f}"


JOB = ForecastJob()


def prepare_series(
    recipe: ForecastRecipe,
    series: Sequence[Series],
    folder: Path,
    origins: Sequence[tuple[int, int, int]] | None = None,
    resuming: bool = False,
) -> Prepared:
    """A run on series that are in memory.

    Args:
        origins: (number of the series, origin, end), each a training window, in place of all of the training part.

    Raises:
        UserError: series that are too short, or have no logarithm.
    """
    data = recipe.data
    cuts = [Cut(len(part), len(part), len(part)) if origins else cut(part, data) for part in series]
    fitted = [part.rows(0, at.train) for part, at in zip(series, cuts, strict=True)]
    transform = Transform.choose(fitted, data.transform)
    task = ForecastTask(recipe, series, cuts, transform, origins)
    folder.mkdir(parents=True, exist_ok=True)
    ENDS.learn_or_load(folder, resuming, lambda: Ends.of(series, cuts, data.window, transform.log))
    count = f"{len(series)} series, " if len(series) > 1 else ""
    rows, held = sum(len(part) for part in series), sum(part.test - part.valid for part in cuts)
    data_summary = f"{count}{rows:,} rows, of which the last {held:,} are held out"
    quantiles = ", ".join(map(str, recipe.model.quantiles)) + (", of logarithms" if transform.log else "")
    summary = Summary(
        name_of(data),
        recipe.model.title,
        len(task.train),
        len(task.valid),
        unit="windows",
        data_summary=data_summary,
        input_summary=f"{data.window} steps in, {data.horizon} out",
        facts={"series": data_summary, "quantiles": quantiles},
    )
    flops = measure(task.model, data.window, terms=task.model.horizon).flops
    return summary.prepared(task, flops, CutSeries(series, cuts))


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
    windows = Windows(series, model.transform, origins_of(cuts, part, data.shortest), data.window, data.horizon)
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
        [season_scale(values.target[: at.train], data.season) for values, at in zip(series, cuts, strict=True)]
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
    for name, forecasts, note in _to_beat(model, series, cuts, part, rolled):
        metrics.append(Metric.of(f"MASE {name}", _mase(rolled, forecasts), note))
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
    picture = model.forecast_at(series[0], cuts[0].span(part)[0] or model.recipe.data.shortest).picture()
    details = {"part": part, "series_count": len(series)}
    scores = Scores(len(rolled.owner), "origins", metrics, {"forecast": picture}, details)
    naive = {"test": {"mase": scores["MASE seasonal naive"], COUNT: scores.count}}
    return compare(scores, None, None, lambda: Baseline("seasonal naive", "mase", naive, 0, mode="min"), "MASE")


def naive_baseline(task: ForecastTask, series: Sequence[Series], season: int) -> Baseline:
    """MASE of the seasonal naive forecast on the validation windows of a task."""
    windows, errors, count = task.valid, 0.0, 0
    for owner, origin, end in zip(windows.owner, windows.origin, windows.end, strict=True):
        target, steps = series[owner].target, min(windows.horizon, int(end - origin))
        naive = seasonal_naive(target, [int(origin)], steps, season)[0]
        errors += float(np.abs(target[origin : origin + steps] - naive).sum() / task.scales[owner])
        count += steps
    scores = {"valid": {"mase": errors / max(1, count), COUNT: len(windows)}}
    return Baseline("seasonal naive", "mase", scores, len(task.train), mode="min")


def _to_beat(
    model: Forecaster, series: Sequence[Series], cuts: Sequence[Cut], part: str, rolled: Rolled
) -> list[tuple[str, np.ndarray, str]]:
    """Forecasts (O, T) of the usual methods at the same origins."""
    data, naive, smoothed, forms = model.recipe.data, [], [], []
    with_smoothing = is_available()
    for number, (values, at) in enumerate(zip(series, cuts, strict=True)):
        origins = rolled.origin[rolled.owner == number].tolist()
        naive.append(seasonal_naive(values.target, origins, data.horizon, data.season))
        if with_smoothing and origins:
            refit, end = len(rolled.owner) <= REFITTED, at.span(part)[1]
            fitted = max(at.span(part)[0], origins[0])
            known = values.target[:end]
            forecasts, form = exponential_smoothing(known, fitted, origins, data.horizon, data.season, refit=refit)
            smoothed.append(forecasts)
            forms.append(form + (", fitted anew at every origin" if refit else ", fitted once"))
    baselines = [("seasonal naive", np.concatenate(naive), f"a season of {data.season} steps ago")]
    if smoothed:
        note = forms[0] if len(forms) == 1 else f"chosen by AICc for each of {len(forms)} series"
        baselines.append(("exponential smoothing", np.concatenate(smoothed), note))
    return baselines


def _mase(rolled: Rolled, forecasts: np.ndarray) -> Interval:
    errors = (np.abs(rolled.truth - forecasts) / rolled.scale * rolled.counted).sum(1)
    return bootstrap(errors, rolled.counted.sum(1))
