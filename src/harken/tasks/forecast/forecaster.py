"""A folder with a forecaster as an object to use.

model = harken.load("runs/airline")
model.forecast().median                      # what comes after the last row of its data
model.forecast([112, 118, 132, 129], steps=3).to_csv()
model.forecast("new.csv").picture().save("fan.svg")
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from harken.data.series.dates import calendar_features, written
from harken.data.series.series import Series, read_series
from harken.data.series.steps import Step, find_step
from harken.errors import UserError
from harken.inspection.pictures.picture import Picture
from harken.models.base import require_numbers
from harken.models.forecasting.model import ForecastNetwork
from harken.tasks.forecast.ends import ENDS, Ends
from harken.tasks.forecast.forecast import Forecast
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.windows import Transform, Windows
from harken.tasks.predictor import Predictor
from harken.training.task import to_device

SHOWN = 3  # windows of history in a picture


class Forecaster(Predictor[ForecastRecipe, ForecastNetwork]):
    """Reads the past of a series and says what comes."""

    def __init__(self, recipe: ForecastRecipe, model: ForecastNetwork, ends: Ends, folder: Path | None = None) -> None:
        super().__init__(recipe, model, folder)
        self.ends, self.transform = ends, Transform(ends.log)

    @classmethod
    def open(cls, folder: Path, recipe: ForecastRecipe, device: str) -> Self:
        ends, data = ENDS.load(folder), recipe.data
        sizes = {"channels": ends.channels, "known": ends.known, "horizon": data.horizon, "season": data.season}
        return cls(recipe, ForecastNetwork(recipe.model, **sizes), ends, folder)

    def forecast(
        self, past: Any = None, covariates: Any = None, steps: int | None = None, *, at: str = "end"
    ) -> Forecast:
        """Forecast the steps after the past of one series.

        Args:
            past: numbers, a table (a file, a data frame, a dict of columns) with the columns of the training data, or
                None for the end of the training series. Rows at the end of a table without a target are steps to
                forecast of which covariates are known.
            covariates: (steps, covariates) known ahead, in the order of `data.covariates`, where the table has none.
            steps: how many; the horizon of the recipe where None. Beyond it, forecasts are fed back.
            at: without a past: "end", after the last row of the data, or "test", where the held-out part begins.

        Raises:
            UserError: a past that does not fit, or covariates that are missing.
        """
        forecasts = self.forecast_all(past, covariates, steps, at=at)
        if len(forecasts) != 1:
            raise UserError(f"there are {len(forecasts)} series; ask with forecast_all, which answers for each of them")
        return forecasts[0]

    def forecast_all(
        self, past: Any = None, covariates: Any = None, steps: int | None = None, *, at: str = "end"
    ) -> list[Forecast]:
        """Forecast every series, as `forecast` does one."""
        if at not in ("test", "end"):
            raise UserError(
                f'at is {at!r}; it may be "end", after the last row, or "test", where the held-out part begins'
            )
        if past is None:
            origins = self.ends.held_out if at == "test" else [len(series) for series in self.ends.series]
            asked = list(zip(self.ends.series, origins, strict=True))
        else:
            asked = [(series, _end_of(series)) for series in self._read(past)]
        return [self.forecast_at(series, origin, covariates, steps) for series, origin in asked]

    @cached_property
    def step(self) -> Step | None:
        """The step of the training series; None where they have no dates."""
        return find_step(self.ends.series[0].dates)

    @property
    def named_ahead(self) -> int:
        """The number of covariates that have to be known ahead, beside those that follow from the dates."""
        return self.ends.known - 2 * len(self.recipe.data.calendar)

    def attention_figure(self, example: str) -> Picture:
        """The influence of each step of the past on the forecast, under the curve: of a file, or by a series' name."""
        series, origin = self._named(example)
        return self.forecast_at(series, origin, looking=True).picture()

    def reading(self, example: str) -> tuple[Any, list[str], str]:
        """The input of `harken inspect --gates` for a file or a series: the batch, its steps' dates, and a title."""
        series, origin = self._named(example)
        past = series.rows(max(0, origin - self.recipe.data.window), origin)
        labels = [written(date) for date in past.dates] or [str(step + 1) for step in range(len(past))]
        return self.batch([past]), labels, f"{series.name} up to {labels[-1]}"

    def _named(self, example: str) -> tuple[Series, int]:
        """A series of the model's own by its name, or that of a file; and the row at which its past ends."""
        for series, origin in zip(self.ends.series, self.ends.held_out, strict=True):
            if series.name == example:
                return series, origin
        if not Path(example).is_file():
            names = ", ".join(known.name for known in self.ends.series[:8])
            raise UserError(f"{example} is neither a file nor a series of the model; its series: {names}")
        series = self._read(example)[0]
        return series, _end_of(series)

    def batch(self, pasts: Sequence[Any]) -> dict[str, Any]:
        """The arguments of the network, for `harken.inspection`: pasts of at least a window each."""
        series = [self._read(past)[0] for past in pasts]
        window = min(self.recipe.data.window, *(len(part) for part in series))
        origins = [(number, len(part), len(part)) for number, part in enumerate(series)]
        windows = Windows(series, self.transform, origins, window, self.model.horizon)
        batch = to_device(windows.batch(np.arange(len(windows))), self.device)
        return {"past": batch.past, "lengths": None, "future": batch.future}

    def _read(self, past: Any) -> list[Series]:
        """A file, a table or bare numbers as series."""
        known = self.ends.channels - 1
        if isinstance(past, str | Path) or hasattr(past, "columns") or isinstance(past, dict):
            return read_series(past, self.recipe.data.layout, ahead=True, step=self.step)
        if isinstance(past, Series):
            return [past]
        try:
            values = np.asarray(past, dtype=np.float64)
        except (TypeError, ValueError):
            raise UserError(
                "the past is neither numbers nor a table; give a list of numbers, a file or a data frame"
            ) from None
        if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
            raise UserError(f"the past has shape {values.shape}; give one or more finite numbers in a row")
        if known:
            raise UserError(
                f"the model reads {known} covariates beside the target; give a table with {self._columns()}"
            )
        return [Series("", values, np.zeros((len(values), 0)), np.zeros((len(values), 0)))]

    def _columns(self) -> str:
        data = self.recipe.data
        return ", ".join([*data.past_covariates, *data.covariates, *(["dates"] if data.calendar else [])]) or "them"

    def forecast_at(
        self,
        series: Series,
        origin: int,
        covariates: Any = None,
        steps: int | None = None,
        looking: bool = False,
    ) -> Forecast:
        """Forecast the steps after the first `origin` rows of a series; later rows are the truth."""
        data = self.recipe.data
        steps = steps or data.horizon
        if origin < 1:
            raise UserError(f"the series {series.name} has no past; give at least one value")
        known, dates = self._known(series, origin, covariates, steps)
        part = series.rows(max(0, origin - SHOWN * data.window), origin)
        ready = Series(part.name, part.target, _forward(part.past), part.known, part.dates)
        batch = Windows([ready], self.transform, [(0, len(ready), len(ready))], data.window, 1).batch(np.array([0]))
        future = torch.from_numpy(known.astype(np.float32))[None]
        looked = moved = None
        with torch.no_grad():
            past, lengths = batch.past.to(self.device), batch.lengths.to(self.device)
            unrolled = self.model.unroll(past, lengths, future.to(self.device))[0].float()
            require_numbers(unrolled)
            quantiles = unrolled.cpu().numpy()
            if looking:
                ahead = _padded(future, self.model.horizon).to(self.device)
                before = np.zeros(len(ready) - int(lengths[0]))
                attention = self.model.attention(past, lengths, ahead)[0].mean(0)
                influence = self.model.influence(past, lengths, ahead)[0]
                looked, moved = (
                    np.concatenate([before, weights.cpu().numpy()[: int(lengths[0])]])
                    for weights in (attention, influence)
                )
        truth = series.target[origin : origin + steps]
        truth = truth[~np.isnan(truth)]
        return Forecast(
            series.name,
            self.model.quantiles,
            self.transform.undo(quantiles.astype(np.float64)),
            [written(date) for date in dates],
            [written(date) for date in part.dates],
            part.target,
            truth if len(truth) else None,
            looked,
            moved,
        )

    def _known(self, series: Series, origin: int, covariates: Any, steps: int) -> tuple[np.ndarray, list[Any]]:
        """Known covariates of the coming steps (steps, F), from rows that are there, from what was given, and dates."""
        data, count = self.recipe.data, self.ends.known
        dates = [*series.dates[origin : origin + steps]]
        if series.dates and len(dates) < steps and (step := self.step or find_step(series.dates)):
            dates += step.after(series.dates, steps - len(dates))
        there = series.known[origin : origin + steps]
        if not count or len(there) == steps:
            return there if count else np.zeros((steps, 0)), dates
        calendar = calendar_features(dates, data.calendar)
        named = self.named_ahead
        if not named:
            return calendar, dates
        given = np.zeros((0, named)) if covariates is None else np.asarray(covariates, dtype=np.float64)
        if given.shape != (steps, named):
            names = ", ".join(data.covariates) or "known ahead"
            raise UserError(
                f"{steps - len(there)} of {steps} steps have no covariates ({names}): add rows to the table with an "
                f"empty target, give covariates of shape ({steps}, {named}), or forecast the held-out part, whose "
                "covariates are known (harken forecast --test)"
            )
        return np.concatenate([given, calendar], 1), dates


def _end_of(series: Series) -> int:
    """The number of rows that have a target."""
    real = np.flatnonzero(~np.isnan(series.target))
    return int(real[-1]) + 1 if len(real) else 0


def _forward(values: np.ndarray) -> np.ndarray:
    """Measured covariates may end before the target: the last ones again."""
    filled = values.copy()
    for row in range(1, len(filled)):
        filled[row] = np.where(np.isnan(filled[row]), filled[row - 1], filled[row])
    return filled


def _padded(future: torch.Tensor, steps: int) -> torch.Tensor:
    """(1, T, F) cut or filled to what the network makes at once."""
    short = steps - future.shape[1]
    return torch.nn.functional.pad(future, (0, 0, 0, short)) if short > 0 else future[:, :steps]
