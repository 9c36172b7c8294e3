"""From a recipe for forecasting to a run, and from a folder to a `Forecaster`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from harken.data.series.series import Series, describe, read_series
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.models.sizing import measure
from harken.tasks.artifacts import Artifact
from harken.tasks.baselines import BASELINE, COUNT
from harken.tasks.forecast.ends import ENDS, Ends
from harken.tasks.forecast.forecast import Forecasts
from harken.tasks.forecast.forecaster import Forecaster
from harken.tasks.forecast.interface import INTERFACE, ForecastOptions, PastRequest
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.scoring import naive_baseline, score
from harken.tasks.forecast.task import ForecastTask
from harken.tasks.forecast.windows import (
    Cut,
    CutSeries,
    Transform,
    cut,
    find_part,
    load_series,
    name_of,
)
from harken.tasks.interface import Form
from harken.tasks.job import FileReading, Job, Prepared, Summary
from harken.tasks.predictor import Progress
from harken.tasks.results import Show
from harken.tasks.scores import Scores

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
    estimator = "harken.estimators.forecaster:SequenceForecaster"
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
        simple = {name: value for name, value in learnt.scores["valid"].items() if name not in ("mase", COUNT)}
        prepared.facts["other simple forecasts"] = ", ".join(f"{name} {value:.4f}" for name, value in simple.items())
        return prepared.with_baseline(learnt)

    def named_split(self, model: Forecaster, split: str | None) -> tuple[str, tuple[Sequence[Series], str]]:
        """All series of the model, and the part of them that a split names."""
        part = find_part(model.recipe.data, split)
        return part, (load_series(model.recipe.data), part)

    def read_files(
        self, model: Forecaster, files: Sequence[Path], reading: FileReading
    ) -> tuple[tuple[Sequence[Series], str], list[str]]:
        series = [part for file in files for part in read_series(file, model.recipe.data.layout, step=model.step)]
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

    def examples(self, model: Forecaster, split: str, files: Sequence[Path] = ()) -> list[Any]:
        """Pasts that end at rows of a part, one a window, for `harken inspect --gradients`."""
        if files:
            raise UserError("--source is not for forecasts, whose windows are those of the training data; leave it out")
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
    dates = describe(series, data.fill)
    summary = Summary(
        name_of(data),
        recipe.model.title,
        len(task.train),
        len(task.valid),
        unit="windows",
        data_summary=data_summary,
        input_summary=f"{data.window} steps in, {data.horizon} out",
        facts={"series": data_summary, **({"steps": dates} if dates else {}), "quantiles": quantiles},
        notes=[dates] if dates else [],
    )
    flops = measure(task.model, data.window, terms=task.model.horizon).flops
    return summary.prepared(task, flops, CutSeries(series, cuts))
