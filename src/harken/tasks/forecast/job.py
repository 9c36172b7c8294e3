"""From a recipe for forecasting to a run, and from a folder to a `Forecaster`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harken.data.series.series import Series, read_series
from harken.errors import UserError
from harken.files import atomic_write
from harken.inspection.picture import Picture
from harken.models.sizing import measure
from harken.tasks.forecast.ends import ENDS, Ends
from harken.tasks.forecast.evaluation import evaluate
from harken.tasks.forecast.forecaster import Forecaster
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.task import ForecastTask
from harken.tasks.forecast.windows import PARTS, Cut, Transform, cut, load_series
from harken.tasks.job import Job, Prepared
from harken.tasks.scores import Scores

WINDOWS = 8  # of a part of a series whose gradients are looked at


class ForecastJob(Job):
    """See `harken.tasks.job`."""

    usage = "harken forecast {}"
    example_input = "series.csv"

    def prepare(self, recipe: ForecastRecipe, folder: Path, resuming: bool) -> Prepared:
        return prepare_series(recipe, load_series(recipe.data), folder)

    table_key = "file"
    table_instead_of = ("corpus",)

    def prepare_table(
        self, recipe: ForecastRecipe, table: dict[str, list[Any]], folder: Path, resuming: bool
    ) -> Prepared:
        series = read_series(table, recipe.data.layout)
        return prepare_series(recipe, [one.rows(0, recipe.data.rows or len(one)) for one in series], folder)

    def load(self, folder: Path, recipe: ForecastRecipe, device: str) -> Forecaster:
        return Forecaster.load(folder, recipe, device)

    def artifact_names(self) -> frozenset[str]:
        return frozenset((ENDS,))

    def evaluate(
        self, model: Forecaster, split: str | None, files: list[Path], progress: Callable[[int], None]
    ) -> Scores:
        return evaluate(model, split, files, progress)

    def look(self, model: Forecaster, example: str) -> Picture:
        return model.look(example)

    def examples(self, model: Forecaster, split: str) -> list[Any]:
        """Pasts that end at rows of a part, one a window, for `harken inspect --gradients`."""
        data, found = model.recipe.data, []
        if split not in PARTS:
            raise UserError(f"there is no split {split!r}; there are {', '.join(PARTS)}")
        for one in load_series(data):
            first, end = cut(one, data).span(split)
            origins = range(max(first, data.window), end, max(1, (end - first) // WINDOWS))
            found += [one.rows(origin - data.window, origin) for origin in origins]
        return found

    def validation(self, best: dict[str, Any]) -> str:
        return f"MASE {best.get('mase', float('nan')):.4f}, scaled pinball loss {best.get('pinball', float('nan')):.4f}"


JOB = ForecastJob()


def prepare_series(
    recipe: ForecastRecipe,
    series: Sequence[Series],
    folder: Path,
    origins: Sequence[tuple[int, int, int]] | None = None,
) -> Prepared:
    """A run on series that are in memory.

    Args:
        origins: (number of the series, origin, end), each a training window, in place of all of the training part.

    Raises:
        UserError: series that are too short, or have no logarithm.
    """
    data = recipe.data
    cuts = [Cut(len(one), len(one), len(one)) if origins else cut(one, data) for one in series]
    fitted = [one.rows(0, at.train) for one, at in zip(series, cuts, strict=True)]
    transform = Transform.choose(fitted, data.transform)
    task = ForecastTask(recipe, series, cuts, transform, origins)
    folder.mkdir(parents=True, exist_ok=True)
    ends = Ends.of(series, cuts, data.window, transform.log)
    atomic_write(folder / ENDS, ends.to_json())
    rows = sum(len(one) for one in series)
    name = data.name or data.corpus or Path(data.file or "series").name
    count = f"{len(series)} series, " if len(series) > 1 else ""
    parameters = sum(parameter.numel() for parameter in task.model.parameters())
    title = f"{name}, {recipe.model.title}"
    held = sum(one.test - one.valid for one in cuts)
    return Prepared(
        task,
        title=title,
        facts={
            "data": f"{name}: {count}{rows:,} rows, of which the last {held:,} are held out",
            "windows": f"{len(task.train):,} of {data.window} steps, {len(task.valid):,} for validation",
            "forecast": f"{data.horizon} steps, quantiles {', '.join(map(str, recipe.model.quantiles))}"
            + (", of logarithms" if transform.log else ""),
        },
        lines=[
            f"{name}: {count}{rows:,} rows, {len(task.train):,} training windows, {len(task.valid):,} for validation",
            f"{recipe.model.title}: {parameters:,} parameters, {data.window} steps in, {data.horizon} out",
        ],
        flops_per_token=measure(task.model, data.window, terms=task.model.horizon).flops,
    )
