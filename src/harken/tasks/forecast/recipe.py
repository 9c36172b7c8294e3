"""Recipes for forecasting: their keys and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from harken.data.io.keys import DataTable, Share
from harken.data.series.series import Layout
from harken.errors import UserError
from harken.models.forecasting.config import ForecasterConfig, RecurrentForecasterConfig
from harken.paths import PathStr
from harken.recipe import Recipe, TableColumn


def _current_fill(rule: Any) -> Any:
    """The rule by its current name."""
    return "previous" if rule == "forward" else rule


class ForecastDataConfig(DataTable):
    """`[data]`: the series, the targets and covariates, and the splits by time."""

    older: ClassVar[Mapping[str, str]] = {
        "file": "train",
        "target": "target_column",
        "date": "date_column",
        "valid": "valid_size",
        "test": "test_size",
        "missing": "fill",
    }

    origins = ("corpus", "train")

    name: str | None = Field(None, description="name of the data in reports; default: its file")
    corpus: Literal["seasons"] | None = Field(None, description="a generated corpus, in place of `train`")
    series: int = Field(8, ge=1, description="generated corpus: number of series")
    size: int = Field(400, ge=50, description="generated corpus: length of each series")
    train: PathStr | None = Field(
        None, description="CSV, TSV or JSONL with one step per row in order of time; also .gz and .xz"
    )
    target_column: str | list[str] | None = Field(
        None, description="column to forecast, or several, each a series; default: the last column"
    )
    date_column: str = Field("auto", description="column of dates; auto: the first column if it holds dates; none")
    covariates: list[str] = Field([], description="covariates known ahead, such as holidays")
    past_covariates: list[str] = Field([], description="covariates known up to the present")
    calendar: list[Literal["month", "day", "weekday", "hour"]] = Field(
        [], description="calendar features: month, day of the year, day of the week, hour"
    )
    group: str | list[str] | None = Field(None, description="column that identifies the series, or several")
    fill: Annotated[Literal["linear", "previous", "seasonal", "zero", "refuse"], BeforeValidator(_current_fill)] = (
        Field(
            "linear",
            description=(
                "missing dates and values: the line between the values around them, the last value, the value a "
                "season before, 0, or an error; values other than 0 are filled in for reading alone, and not scored"
            ),
        )
    )
    transform: Literal["auto", "log", "none"] = Field(
        "auto", description="transform of the values; auto: logarithm if all values are positive"
    )
    rows: int | None = Field(None, ge=10, description="use only the first rows of each series, this many")
    window: int = Field(
        36, ge=2, description="steps of the past that the network reads; fewer at the start of a series"
    )
    horizon: int = Field(6, ge=1, description="forecast horizon in steps")
    season: int = Field(1, ge=1, description="season length in steps: 12 for months; 1: none")
    shortest: int = Field(4, ge=1, description="shortest training window in steps")
    valid_size: Share = Field(0.2, description="validation rows, or their share, before the test part")
    test_size: Share = Field(0.2, description="test rows, or their share, at the end")
    final: bool = Field(False, description="train on the validation part too, after a budget was chosen on it")
    seed: int = Field(1, ge=0, description="seed of the generated corpus")

    @property
    def layout(self) -> Layout:
        """The roles of the columns."""
        target = [self.target_column] if isinstance(self.target_column, str) else self.target_column or []
        return Layout(
            target,
            self.date_column,
            self.covariates,
            self.past_covariates,
            self.group,
            self.calendar,
            self.fill,
            self.season,
        )


class ForecastRecipe(Recipe):
    """Recipe for forecasting."""

    target_column = TableColumn("target_column", ("number",), "number")
    cuts_at_end = True

    task: Literal["forecast"] = Field("forecast", description="the job")
    data: ForecastDataConfig = Field(description="the series and their splits by time")
    model: ForecasterConfig = Field(
        RecurrentForecasterConfig.model_validate({}), description="the network; architecture chooses it"
    )

    @model_validator(mode="after")
    def _window_fits(self) -> ForecastRecipe:
        data, longest = self.data, self.model.longest
        if longest is not None and data.window > longest:
            raise ValueError(
                f"data.window {data.window} is longer than model.max_length {longest} learned positions; raise it, or "
                "take other positions"
            )
        if self.model.base == "seasonal" and not 2 <= data.season <= data.window:
            raise ValueError(
                f'model.base is "seasonal", which needs a season of 2 or more in the window, but data.season is '
                f"{data.season} and data.window {data.window}; set them, or another base"
            )
        if self.model.base != "smoothing" and not self.model.residual:
            raise ValueError(
                f'model.residual is false, so the network would change nothing of model.base "{self.model.base}"; '
                'set residual = true, or base = "smoothing"'
            )
        return self

    def require_data(self, origin: str) -> None:
        """Recipes for real series leave the file to the user."""
        if not self.data.corpus and not self.data.train:
            raise UserError(
                f"{origin} does not say where its data is: add --set data.train=FILE (CSV, TSV or JSONL with a row a "
                "step), or set data.corpus to seasons"
            )


RECIPE = ForecastRecipe
