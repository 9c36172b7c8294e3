"""Time series out of a table: a target, covariates, dates, and several series by a group column.

    past covariates    measured as the target is: known up to now
    covariates         known ahead: prices that are set, holidays, calendar features of the dates

A cell without a number is an error or is filled, as `missing` says: "forward" repeats the last number, "linear" goes on
along the line through the last two numbers, within the range of all numbers before, "zero" is 0. A gap is filled from
rows before it alone, so that no row depends on what comes later; a gap before the first number is an error.

>>> layout = Layout(target=["y"], covariates=["sale"])
>>> [series] = read_series({"day": ["2024-01-01", "2024-01-02"], "y": [3, 5], "sale": [0, 1]}, layout)
>>> series.target.tolist(), series.known.tolist(), str(series.dates[1].date())
([3.0, 5.0], [[0.0], [1.0]], '2024-01-02')
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.table import column_names, read_table
from harken.data.series.dates import calendar_features, read_date, read_dates
from harken.errors import UserError

NOTHING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}


@dataclass(frozen=True)
class Layout:
    """Which columns are what."""

    target: Sequence[str] = ()  # none: the last column
    date: str = "auto"  # the first column where it holds dates; "none": none
    covariates: Sequence[str] = ()
    past_covariates: Sequence[str] = ()
    group: str | None = None
    calendar: Sequence[str] = ()
    missing: str = "refuse"


@dataclass(frozen=True)
class Series:
    """One series; rows are steps."""

    name: str
    target: np.ndarray  # (N,)
    past: np.ndarray  # (N, P) covariates that are measured
    known: np.ndarray  # (N, F) covariates that are known ahead, calendar features last
    dates: list[datetime] = field(default_factory=list)  # empty where there are none

    def __len__(self) -> int:
        return len(self.target)

    def rows(self, start: int, stop: int) -> Series:
        """A piece of it."""
        part = slice(start, stop)
        return replace(
            self, target=self.target[part], past=self.past[part], known=self.known[part], dates=self.dates[part]
        )


def read_series(source: Any, layout: Layout, *, ahead: bool = False) -> list[Series]:
    """Every series of a table; several targets are several series with the same covariates.

    Args:
        ahead: rows at the end without a target are steps to forecast, of which covariates are known; their targets and
            measured covariates are NaN.

    Raises:
        UserError: no such column, cells that are no numbers, dates that do not rise.
    """
    where = str(source) if isinstance(source, str | Path) else "the table"
    names = column_names(source)
    targets = list(layout.target) or names[-1:]
    columns = [*targets, *layout.covariates, *layout.past_covariates, *([layout.group] if layout.group else [])]
    date = _date_column(source, names, layout, targets)
    table = read_table(source, list(dict.fromkeys([*columns, *([date] if date else [])])))
    if not table[targets[0]]:
        raise UserError(f"{where} has no rows below its header; give a series with at least a few values")
    if layout.calendar and not date:
        raise UserError(
            f"{where} has no dates, but data.calendar is {list(layout.calendar)}; name them as data.date_column"
        )
    series_list = []
    for group, rows in _groups(table, layout.group):
        place = f"{where}, {layout.group} {group}" if layout.group else where
        dates = read_dates([table[date][row] for row in rows], place) if date else []

        def numbers(column: str, rows: list[int] = rows, place: str = place) -> np.ndarray:
            measured = ahead and column not in layout.covariates
            return _numbers([table[column][row] for row in rows], column, rows, place, layout.missing, measured)

        empty = np.zeros((len(rows), 0))
        past = np.stack([numbers(name) for name in layout.past_covariates], 1) if layout.past_covariates else empty
        known = np.stack([numbers(name) for name in layout.covariates], 1) if layout.covariates else empty
        if layout.calendar:
            known = np.concatenate([known, calendar_features(dates, layout.calendar)], 1)
        for target in targets:
            name = " ".join(part for part in (group, target if len(targets) > 1 or not group else "") if part)
            series_list.append(Series(name, numbers(target), past, known, dates))
    return series_list


def _date_column(source: Any, names: list[str], layout: Layout, targets: list[str]) -> str | None:
    if layout.date == "none":
        return None
    if layout.date != "auto":
        return layout.date
    first = names[0]
    if first in targets or first == layout.group:
        return None
    cells = read_table(source, [first])[first]
    return first if cells and read_date(cells[0]) is not None else None


def _groups(table: dict[str, list[Any]], group: str | None) -> list[tuple[str, list[int]]]:
    count = len(next(iter(table.values())))
    if group is None:
        return [("", list(range(count)))]
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table[group]):
        rows.setdefault(str(name), []).append(row)
    return list(rows.items())


def _numbers(
    cells: list[Any], column: str, rows: list[int], where: str, missing: str, open_end: bool = False
) -> np.ndarray:
    known_count = len(cells)
    while open_end and known_count and math.isnan(_number(cells[known_count - 1])):
        known_count -= 1
    if open_end and 0 < known_count < len(cells):
        known = _numbers(cells[:known_count], column, rows[:known_count], where, missing)
        return np.concatenate([known, np.full(len(cells) - known_count, np.nan)])
    values = np.empty(len(cells))
    for place, cell in enumerate(cells):
        values[place] = _number(cell)
        if math.isnan(values[place]) and missing == "refuse":
            what = "is missing" if str(cell).strip().lower() in NOTHING else f"{str(cell)!r} is no number"
            raise UserError(
                f"{where}, row {rows[place] + 1}: {column} {what}; fix it, or set data.missing to forward, linear or "
                "zero"
            )
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    if gaps.all():
        raise UserError(f"{where}: the column {column} has no number at all; choose another")
    if missing == "zero":
        return np.where(gaps, 0.0, values)
    if gaps[0]:
        raise UserError(
            f"{where}, row {rows[0] + 1}: {column} is missing and no number comes before it; remove the rows before "
            "the first number, or set data.missing to zero"
        )
    return fill_forward(values, linear=missing == "linear")


def fill_forward(values: np.ndarray, *, linear: bool = False) -> np.ndarray:
    """Fill gaps (NaN) from earlier numbers alone; the first value is a number.

    >>> fill_forward(np.array([1.0, np.nan, 4.0, 3.0, np.nan, np.nan, np.nan])).tolist()
    [1.0, 1.0, 4.0, 3.0, 3.0, 3.0, 3.0]
    >>> fill_forward(np.array([1.0, np.nan, 4.0, 3.0, np.nan, np.nan, np.nan]), linear=True).tolist()
    [1.0, 1.0, 4.0, 3.0, 2.0, 1.0, 1.0]
    """
    known = np.flatnonzero(~np.isnan(values))
    numbers, places = values[known], np.arange(len(values))
    last = np.searchsorted(known, places, side="right") - 1  # the number at or before each place
    if not linear:
        return numbers[last]
    steps = np.diff(numbers, prepend=numbers[:1]) / np.diff(known, prepend=-1)
    low, high = np.minimum.accumulate(numbers), np.maximum.accumulate(numbers)
    return np.clip(numbers[last] + steps[last] * (places - known[last]), low[last], high[last])


def _number(cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan
