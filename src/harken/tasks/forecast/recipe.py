"""What a recipe for forecasting may say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from harken.data.series.series import Layout
from harken.data.text.config import Share
from harken.errors import UserError
from harken.models.forecasting.config import ForecasterConfig
from harken.recipe import Recipe
from harken.training.config import TrainConfig


class ForecastDataConfig(BaseModel):
    """`[data]`: the series, what is forecast of them, and how they are cut by time."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, description="what the data is called on the card; else its file")
    corpus: Literal["seasons"] | None = Field(None, description="series that harken makes; instead of `file`")
    series: int = Field(8, ge=1, description="seasons: how many series")
    size: int = Field(400, ge=50, description="seasons: how long each is")
    file: str | None = Field(None, description="CSV, TSV or JSONL, a row a step in the order of time (.gz, .xz too)")
    target: str | list[str] | None = Field(
        None, description="the column to forecast, or several, each a series of its own; not given: the last one"
    )
    date: str = Field("auto", description="the column of dates; auto: the first, where it holds dates; none")
    covariates: list[str] = Field([], description="columns that are known ahead, as holidays are")
    past_covariates: list[str] = Field([], description="columns that are measured, so known up to now alone")
    calendar: list[Literal["month", "day", "weekday", "hour"]] = Field(
        [], description="features of the date, known ahead: month and day of the year, day of the week, hour"
    )
    group: str | None = Field(None, description="the column that tells several series apart")
    missing: Literal["refuse", "forward", "linear", "zero"] = Field(
        "refuse", description="a cell without a number: an error, the last number, the line through the last two, or 0"
    )
    transform: Literal["auto", "log", "none"] = Field(
        "auto", description="what the network sees; auto: the logarithm where all values are above 0"
    )
    rows: int | None = Field(None, ge=10, description="use only this many rows of each series, from the first")
    window: int = Field(36, ge=2, description="S, steps of the past that the network reads, fewer at the beginning")
    horizon: int = Field(6, ge=1, description="T, steps that are forecast")
    season: int = Field(1, ge=1, description="steps after which the series is alike: 12 for months; 1: none")
    shortest: int = Field(4, ge=1, description="steps of the past that a training window has at least")
    valid: Share = Field(0.2, description="rows before the test part, or their share: weights are chosen on them")
    test: Share = Field(0.2, description="rows at the end, or their share: held out for harken evaluate")
    final: bool = Field(
        False, description="train on the validation part too, for a budget that was chosen on it before"
    )
    seed: int = Field(1, ge=0, description="seasons: the same seed makes the same series")

    @model_validator(mode="after")
    def _one_source(self) -> ForecastDataConfig:
        if self.corpus and self.file:
            raise ValueError("data.corpus and data.file are both given; keep one of them")
        return self

    @property
    def layout(self) -> Layout:
        """Which columns are what."""
        target = [self.target] if isinstance(self.target, str) else self.target or []
        return Layout(target, self.date, self.covariates, self.past_covariates, self.group, self.calendar, self.missing)


class ForecastRecipe(Recipe):
    """All the sections of a recipe for forecasting."""

    task: Literal["forecast"] = Field("forecast", description="the job the model learns")
    data: ForecastDataConfig = Field(description="the series, and how they are cut by time")
    model: ForecasterConfig = Field(description="the network; begin with architecture")
    train: TrainConfig = Field(description="how long, how fast and how carefully to train; needs a budget")

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
        if not self.data.corpus and not self.data.file:
            raise UserError(
                f"{origin} does not say where its data is: add --set data.file=FILE (CSV, TSV or JSONL with a row a "
                "step), or set data.corpus to seasons"
            )


RECIPE = ForecastRecipe
