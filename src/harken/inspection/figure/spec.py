"""Figures as data: what is drawn, without how.

A figure is one or more panels under a title. Panels hold plain numbers and words, so that tests can read them and they
can be written as JSON. `harken.inspection.figure.paper` draws figures with matplotlib as SVG and PNG, `.terminal` with
rich, `.page` as a self-contained HTML page.

>>> panel = Lines("", "step", "loss", [Series("LSTM", [1, 2], [0.5, 0.25])], log_y=True)
>>> panel.series[0].points()
[(1.0, 0.5), (2.0, 0.25)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from harken.inspection.figure.tree import Tree

Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares of an image


@dataclass(frozen=True)
class Series:
    """One line; values that are not finite leave a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None  # with `high`: a pale band around the line, such as the range over seeds
    high: Sequence[float] | None = None
    dashed: bool = False
    colour: int | None = None  # series with the same number share a colour; None: in order
    note: str = ""  # what the legend says after the label

    @classmethod
    def of_runs(
        cls,
        label: str,
        x: Sequence[float],
        runs: Sequence[Sequence[float]],
        centre: Callable[[Sequence[float]], float] = median,
        **look: Any,
    ) -> Series:
        """Through the centre of several runs, each with a value for every x, in a band from the least to the largest.

        >>> Series.of_runs("loss", [1, 2], [[1.0, 3.0], [2.0, 5.0], [6.0, 4.0]]).y
        [2.0, 4.0]
        """
        columns = list(zip(*runs, strict=True))
        low, high = [min(column) for column in columns], [max(column) for column in columns]
        return cls(label, x, [centre(column) for column in columns], low, high, **look)

    def points(self) -> list[tuple[float, float]]:
        """The points whose coordinates are finite."""
        pairs = ((float(x), float(y)) for x, y in zip(self.x, self.y, strict=True))
        return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


@dataclass(frozen=True)
class Band:
    """An area between two lines, such as the quantiles of a forecast."""

    label: str
    x: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    colour: int = 0


@dataclass(frozen=True)
class Mark:
    """A thin line across the panel with a label: a threshold, a prediction."""

    at: float
    label: str
    axis: str = "y"  # "y": horizontal, at this y; "x": vertical, at this x


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis."""

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    marks: Sequence[Mark] = ()
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    ordered: bool = False  # the series are steps of one quantity: colours run from pale to dark
    dots: bool = True  # a marker on every point
    bands: Sequence[Band] = ()
    shade: Sequence[float] | None = None  # weights from 0 to 1 behind the points of the first series
    x_ticks: Sequence[tuple[float, str]] = ()  # by default chosen by the renderer
    names: Sequence[str] = ()  # what the points are called in hints and tables, from the least x on
    flat: bool = False  # less than half as high: a companion of the main panel


@dataclass(frozen=True)
class Group:
    """One bar for each of the names, all in one colour."""

    label: str
    values: Sequence[float]
    low: Sequence[float] | None = None  # with `high`: a whisker
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Bars:
    """Bars side by side, for each of `names` one of every group."""

    title: str
    x_label: str
    y_label: str
    names: Sequence[str]
    groups: Sequence[Group]
    log_y: bool = False
    marks: Sequence[Mark] = ()
    y_limits: tuple[float, float] | None = None
    form: str = "{:.3g}"  # of the number at a bar; "" for none
    horizontal: bool = False


@dataclass(frozen=True)
class Heat:
    """A table of numbers as shades; rows downwards. A value that rounds to zero is left blank."""

    title: str
    x_label: str
    y_label: str
    columns: Sequence[str]
    rows: Sequence[str]
    values: Sequence[Sequence[float]]
    low: float | None = None  # what the palest shade means; None: the least value
    high: float | None = None
    form: str = "{:.2g}"  # of the number in a cell; "" for none
    log: bool = False  # shades by the logarithm
    signed: bool = False  # shades on both sides of 0, to the largest size on either
    marked: Sequence[int] = ()  # rows with a dot
    mark_label: str = ""  # what a dot means
    row_names: bool = True  # False: the panel on its left has the same rows

    @property
    def limits(self) -> tuple[float, float]:
        """The values of the palest and of the deepest shade."""
        finite = [float(value) for row in self.values for value in row if math.isfinite(value)]
        if self.signed:
            most = self.high or max((abs(value) for value in finite), default=1.0) or 1.0
            return -most, most
        low = min(finite, default=0.0) if self.low is None else self.low
        high = max(finite, default=1.0) if self.high is None else self.high
        return low, high if high > low else low + 1

    def strengths(self) -> np.ndarray:
        """(rows, columns): how deep each cell is shaded, from 0 to 1; below 0 for values below 0 of a signed panel."""
        low, high = self.limits
        values = np.nan_to_num(np.asarray(self.values, dtype=np.float64)).reshape(len(self.rows), len(self.columns))
        if self.signed:
            return np.clip(values / high, -1, 1)
        if self.log:
            low, high, values = math.log(low), math.log(high), np.log(np.maximum(values, low))
        return np.clip((values - low) / (high - low), 0, 1)

    def number(self, row: int, column: int, form: str | None = None) -> str:
        """The number in a cell, blank where it rounds to zero or is not finite."""
        value, form = float(self.values[row][column]), self.form if form is None else form
        if not form or not math.isfinite(value):
            return ""
        text = form.format(value)
        return text if any(digit in text for digit in "123456789") else ""

    def hint(self, row: int, column: int) -> str:
        """Both names and the value of a cell."""
        return f"{self.rows[row]} ← {self.columns[column]}: {float(self.values[row][column]):.3f}"


@dataclass(frozen=True)
class Raster:
    """Shades over a numeric axis, without gaps and without numbers: a spectrogram; rows upwards unless named."""

    title: str
    x_label: str
    y_label: str
    values: np.ndarray  # (rows, columns), from 0 to 1
    x_limits: tuple[float, float]
    rows: Sequence[str] = ()  # names, downwards; without names the first row is the lowest
    labels: Sequence[tuple[float, str]] = ()  # text above, at these x


@dataclass(frozen=True)
class Tokens:
    """A running text with a bar above each token; lines wrap."""

    title: str
    tokens: Sequence[str]
    values: Sequence[float]  # not below 0
    unit: str
    high: float  # what a full bar means


@dataclass(frozen=True)
class Images:
    """An image, and the same image once for each word, dark where the word does not look."""

    title: str
    notes: Sequence[str]
    pixels: np.ndarray  # (Y, X, 3) bytes
    words: Sequence[str]
    weights: np.ndarray  # (words, rows, columns), from 0 to 1
    boxes: Sequence[Box] = ()  # reference regions, drawn on the first image

    def strengths(self) -> np.ndarray:
        """The weights with the largest of every word as 1."""
        most = self.weights.max((1, 2), keepdims=True)
        return np.divide(self.weights, most, out=np.zeros_like(self.weights), where=most > 0)


@dataclass(frozen=True)
class Strokes:
    """Pen drawings with captions; y downwards, one scale for all."""

    title: str
    drawings: Sequence[Sequence[np.ndarray]]  # strokes (points, 2) of each
    captions: Sequence[str]


@dataclass(frozen=True)
class Strips:
    """Curves one below the other, each scaled to its own range, with a weight for every step behind them."""

    title: str
    x_label: str
    names: Sequence[str]
    values: np.ndarray  # (T, C)
    weights: np.ndarray  # (T,), from 0 to 1

    def scaled(self) -> np.ndarray:
        """(T, C): every channel from 0 to 1; a constant one is at 0.5."""
        low, high = self.values.min(0), self.values.max(0)
        moves = high > low
        return np.where(moves, (self.values - low) / np.where(moves, high - low, 1.0), 0.5)


Panel = Lines | Bars | Heat | Raster | Tokens | Images | Strokes | Strips | Tree


@dataclass(frozen=True)
class Figure:
    """Panels under one title."""

    title: str
    panels: Sequence[Panel] = field(default_factory=list)
    note: str = ""  # a line below: what was measured on what
    across: int | None = None  # panels in a row; None: as many as fit
    name: str = ""  # among several figures on one page: what its button says; "layer / head" for a grid of buttons


def figure_from_dict(content: dict[str, Any]) -> Figure:
    """A figure of lines, bars and heat maps from what `dataclasses.asdict` made of it and JSON kept."""

    def panel(parts: dict[str, Any]) -> Panel:
        parts = {key: math.nan if value is None and key == "values" else value for key, value in parts.items()}
        parts["marks"] = [Mark(**mark) for mark in parts.get("marks", ())]
        if "series" in parts:
            bands = [Band(**_without_null(band)) for band in parts.pop("bands", ())]
            lines = [Series(**_without_null(line)) for line in parts.pop("series")]
            return Lines(**parts, series=lines, bands=bands)
        if "groups" in parts:
            groups = [Group(**_without_null(group)) for group in parts.pop("groups")]
            return Bars(**parts, groups=groups)
        parts.pop("marks")
        return Heat(**parts)

    return Figure(**{**content, "panels": [panel(parts) for parts in content["panels"]]})


def _without_null(parts: dict[str, Any]) -> dict[str, Any]:
    """The parts of a series, with NaN where JSON has null among numbers."""

    def numbers(value: Any) -> Any:
        return [math.nan if number is None else number for number in value] if isinstance(value, list) else value

    return {key: numbers(value) for key, value in parts.items()}
