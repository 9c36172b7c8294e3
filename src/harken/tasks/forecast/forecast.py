"""Results of a forecaster: the coming steps of one series, with their quantiles.

>>> import numpy as np
>>> values, past = np.array([[1.0, 2.0, 4.0]]), np.array([2.5])
>>> made = Forecast("sales", [0.1, 0.5, 0.9], values, ["2024-03-01"], ["2024-02-01"], past)
>>> made.median.tolist(), made.quantile(0.9).tolist()
([2.0], [4.0])
>>> print(made.to_csv(), end="")
step,date,forecast,q0.1,q0.9
1,2024-03-01,2.0,1.0,4.0
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.errors import UserError
from harken.tasks.results import Printing, Result

if TYPE_CHECKING:
    from harken.inspection.pictures.fan import FanPicture


@dataclass(frozen=True)
class Forecast:
    """T steps of one series."""

    name: str
    levels: list[float]  # Q, in rising order, 0.5 among them
    values: np.ndarray  # (T, Q)
    dates: Sequence[str]  # (T,) or empty
    past_dates: Sequence[str]  # (S,) or empty
    past: np.ndarray  # (S,) what was read
    truth: np.ndarray | None = None  # what came, as far as it is known
    attention: np.ndarray | None = None  # (S,) how much was looked at each step of the past, mean over the horizon
    influence: np.ndarray | None = None  # (S,) how much each step of the past moves the forecast

    def __len__(self) -> int:
        return len(self.values)

    @property
    def median(self) -> np.ndarray:
        """(T,), the forecast in one number a step."""
        return self.quantile(0.5)

    def quantile(self, level: float) -> np.ndarray:
        """(T,) of one level.

        Raises:
            UserError: a level that the model was not trained for.
        """
        if level not in self.levels:
            raise UserError(f"the model has no quantile {level}; it has {', '.join(map(str, self.levels))}")
        return self.values[:, self.levels.index(level)]

    def to_csv(self, header: bool = True, named: bool = False) -> str:
        """A row a step; `named` puts the series' name first."""
        others = [level for level in self.levels if level != 0.5]
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        dated = bool(len(self.dates))
        if header:
            names = ["step", *(["date"] if dated else []), "forecast", *(f"q{level}" for level in others)]
            writer.writerow((["series"] if named else []) + names)
        for step in range(len(self)):
            numbers = [self.median[step], *(self.quantile(level)[step] for level in others)]
            row = [step + 1, *([self.dates[step]] if dated else []), *(round(float(number), 6) for number in numbers)]
            writer.writerow([self.name, *row] if named else row)
        return file.getvalue()

    def to_dict(self) -> dict[str, Any]:
        """Convert the forecast to values that JSON can hold."""
        content: dict[str, Any] = {"series": self.name, "forecast": self.median.tolist()}
        content["quantiles"] = {str(level): self.quantile(level).tolist() for level in self.levels}
        if len(self.dates):
            content["dates"] = list(self.dates)
        if self.truth is not None:
            content["truth"] = self.truth.tolist()
        return content

    def picture(self) -> FanPicture:
        """History, fan and truth."""
        from harken.inspection.pictures.fan import FanPicture

        return FanPicture(
            title=f"{self.name}: {len(self)} step{'s' * (len(self) != 1)} ahead".lstrip(": "),
            past=self.past,
            levels=self.levels,
            values=self.values,
            labels=[*self.past_dates, *self.dates],
            truth=self.truth,
            shade=self.influence,
        )


@dataclass(frozen=True)
class Forecasts(Result):
    """The forecasts of all series of one past."""

    forecasts: list[Forecast]
    notes: Sequence[str] = ()

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"series": [{**forecast.to_dict(), "past": forecast.past.tolist()} for forecast in self.forecasts]}

    def to_records(self, options: Any) -> list[dict[str, Any]]:
        return [forecast.to_dict() for forecast in self.forecasts]

    def to_text(self, options: Any, printing: Printing) -> str:
        is_named = len(self.forecasts) > 1
        tables = [forecast.to_csv(header=number == 0, named=is_named) for number, forecast in enumerate(self.forecasts)]
        if printing.is_terminal:
            tables.append(f"\n{self.forecasts[0].picture().to_terminal()}\n")
        return "".join(tables).removesuffix("\n")
