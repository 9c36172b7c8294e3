"""Pictures as data: what an experiment wants drawn, without how (`harken.lab.drawing`, `harken.lab.plot`).

A figure is one or more panels side by side: `Lines` (x against y), `Bars` (a value for each of some names) or `Heat` (a
table of numbers as shades). Everything is plain numbers and words, so that tests can look at it and it goes into JSON.

>>> Lines("", "step", "loss", [Series("LSTM", [1, 2], [0.5, 0.25])], log_y=True).series[0].points()
[(1.0, 0.5), (2.0, 0.25)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Series:
    """One line; values that are not finite leave a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None  # with `high`: a pale band around the line, such as the least and largest seed
    high: Sequence[float] | None = None
    dashed: bool = False
    colour: int | None = None  # series of the same number share a colour; None: one after the other

    def points(self) -> list[tuple[float, float]]:
        """The finite ones."""
        pairs = ((float(x), float(y)) for x, y in zip(self.x, self.y, strict=True))
        return [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]


@dataclass(frozen=True)
class Mark:
    """A thin line across the panel with a word on it: a threshold, a prediction."""

    at: float
    label: str
    axis: str = "y"  # "y": level, at this y; "x": upright, at this x


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
    dots: bool = True  # a dot on every point


@dataclass(frozen=True)
class Group:
    """One bar in each of the groups, all in one colour."""

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
    form: str = "{:.3g}"  # of the number above a bar; "" for none


@dataclass(frozen=True)
class Heat:
    """A table of numbers as shades; rows downwards."""

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


Panel = Lines | Bars | Heat


@dataclass(frozen=True)
class Figure:
    """Panels under one title."""

    title: str
    panels: Sequence[Panel] = field(default_factory=list)
    note: str = ""  # a line below: what was measured on what
