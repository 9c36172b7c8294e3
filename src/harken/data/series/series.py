"""Time series out of a table: a target, covariates, dates, and several series by columns or by a group.

    past covariates    measured as the target is: known up to now
    covariates         known ahead: prices that are set, holidays, calendar features of the dates

Rows are sorted by their dates and put on the grid of their step (`harken.data.series.steps`). Rows with the same date
are averaged. A date that is missing, and a target without a number, are filled as `fill` says:

    linear     on the line between the numbers before and after
    previous   the last number again
    seasonal   the number one season before
    zero       0, which counts as measured: nothing was sold on that day
    refuse     an error

What is filled is marked in `Series.filled`. No forecast starts inside a gap (`harken.tasks.forecast.windows`), so none
sees a filled number that depends on what comes later. Covariates repeat their last number.

>>> layout = Layout(target=["y"], covariates=["sale"])
>>> table = {"day": ["2024-01-04", "2024-01-01", "2024-01-02"], "y": [5, 3, 4], "sale": [0, 1, 1]}
>>> [series] = read_series(table, layout)
>>> series.target.tolist(), series.known.tolist(), series.filled.tolist()
([3.0, 4.0, 4.5, 5.0], [[1.0], [1.0], [1.0], [0.0]], [False, False, True, False])
>>> print(describe([series], "linear"))
daily from 2024-01-01 to 2024-01-04; 1 missing date filled (linear)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.table import column_names, is_number, read_table
from harken.data.series.dates import calendar_features, parse_dates, read_date, require_dates, written
from harken.data.series.grid import Grid, fill_gaps
from harken.data.series.steps import Step, find_step
from harken.errors import UserError

SERIES, VALUE = "series", "value"  # the columns of a table with a series a row, as a table with a step a row
NOTHING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
MOST_DUPLICATES = 0.2  # share of the rows; beyond it they are several series


@dataclass(frozen=True)
class Layout:
    """The roles of the columns, and how gaps are filled."""

    target: Sequence[str] = ()  # none: the last column
    date: str = "auto"  # the first column where it holds dates; "none": none
    covariates: Sequence[str] = ()
    past_covariates: Sequence[str] = ()
    group: str | Sequence[str] | None = None
    calendar: Sequence[str] = ()
    fill: str = "linear"
    season: int = 1  # for the fill "seasonal"

    @property
    def groups(self) -> list[str]:
        """The columns that tell series apart."""
        return [self.group] if isinstance(self.group, str) else list(self.group or ())


@dataclass(frozen=True)
class Repairs:
    """The numbers of rows and cells of a series that were not as they should be."""

    missing_dates: int = 0
    missing_values: int = 0  # of the target
    duplicates: int = 0
    form: str = ""  # of the dates, where it was chosen from all of them


@dataclass(frozen=True)
class Series:
    """One series; rows are steps."""

    name: str
    target: np.ndarray  # (N,)
    past: np.ndarray  # (N, P) covariates that are measured
    known: np.ndarray  # (N, F) covariates that are known ahead, calendar features last
    dates: list[datetime] = field(default_factory=list)  # empty where there are none
    filled: np.ndarray | None = None  # (N,) whether the target was filled in; None: nowhere
    repairs: Repairs = Repairs()

    def __len__(self) -> int:
        return len(self.target)

    @property
    def measured(self) -> np.ndarray:
        """(N,) whether the target is from the data."""
        return np.ones(len(self), dtype=bool) if self.filled is None else ~self.filled

    @property
    def observed(self) -> np.ndarray:
        """(N,) the target, NaN where it was filled in."""
        return np.where(self.measured, self.target, np.nan)

    @property
    def content(self) -> tuple[Any, ...]:
        """The numbers and dates, for a digest."""
        return self.name, self.target, self.past, self.known, self.dates

    def rows(self, start: int, stop: int) -> Series:
        """A piece of it."""
        part = slice(start, stop)
        return replace(
            self,
            target=self.target[part],
            past=self.past[part],
            known=self.known[part],
            dates=self.dates[part],
            filled=None if self.filled is None else self.filled[part],
        )


def describe(series: Sequence[Series], fill: str) -> str:
    """The dates of series, and what was repaired, in one line; empty where there is nothing to say."""
    dated = [part for part in series if part.dates]
    span = ""
    if dated:
        first, last = min(part.dates[0] for part in dated), max(part.dates[-1] for part in dated)
        step = find_step(dated[0].dates)
        span = f"{step.name if step else 'one date'} from {written(first)} to {written(last)}"
        span += f" (dates read as {dated[0].repairs.form})" if dated[0].repairs.form else ""
    repairs = [part.repairs for part in series]
    counts = [
        (sum(counted.missing_dates for counted in repairs), "missing date", f"filled ({fill})"),
        (sum(counted.missing_values for counted in repairs), "missing value", f"filled ({fill})"),
        (sum(counted.duplicates for counted in repairs), "row", "averaged with others of the same date"),
    ]
    texts = [f"{count:,} {what}{'s' * (count != 1)} {done}" for count, what, done in counts if count]
    return "; ".join(filter(None, [span, ", ".join(texts)]))


def read_series(source: Any, layout: Layout, *, ahead: bool = False, step: Step | None = None) -> list[Series]:
    """Every series of a table; several targets are several series with the same covariates.

    Args:
        ahead: rows at the end without a target are steps to forecast, of which covariates are known; their targets and
            measured covariates are NaN.
        step: of the dates; found where None.

    Raises:
        UserError: no such column, cells that are no numbers, or dates that are not evenly spaced.
    """
    where = str(source) if isinstance(source, str | Path) else "the table"
    names = column_names(source)
    if [*layout.target, *layout.groups] == [VALUE, SERIES] and not {VALUE, SERIES} & set(names):
        source, names = _step_a_row(source) or (source, names)
    targets = list(layout.target) or names[-1:]
    date = date_column(source, names, layout, targets)
    columns = [*targets, *layout.covariates, *layout.past_covariates, *layout.groups, *([date] if date else [])]
    table = _without_blank_rows(read_table(source, list(dict.fromkeys(columns))))
    if not table[targets[0]]:
        raise UserError(f"{where} has no rows below its header; give a series with at least a few values")
    if layout.calendar and not date:
        raise UserError(
            f"{where} has no dates, but data.calendar is {list(layout.calendar)}; name them as data.date_column"
        )
    dates, form = require_dates(table[date], date, where) if date else ([], "")
    groups = _groups(table, layout.groups)
    if dates and step is None:
        step = _common_step([sorted({dates[row] for row in rows}) for _, rows in groups])
    series_list: list[Series] = []
    for group, rows in groups:
        context = f"{where}, {' '.join(layout.groups)} {group}" if group else where
        grid = Grid.of([dates[row] for row in rows] if dates else len(rows), step, context)
        if grid.duplicates > MOST_DUPLICATES * len(rows):
            raise UserError(_several_rows_a_date(source, names, columns, context, grid, len(rows)))
        reader = _Reader(table, rows, grid, layout, context, form, ahead)
        for target in targets:
            name = " ".join(part for part in (group, target if len(targets) > 1 or not group else "") if part)
            series_list.append(reader.series(name, target))
    return series_list


@dataclass(frozen=True)
class _Reader:
    """The rows of one group, to be read as series."""

    table: dict[str, list[Any]]
    rows: list[int]
    grid: Grid
    layout: Layout
    where: str
    form: str
    ahead: bool

    def series(self, name: str, target: str) -> Series:
        """One target from its first number to its last, with its gaps filled."""
        values, layout = self.numbers(target), self.layout
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            raise UserError(f"{self.where}: the column {target} has no number at all; choose another")
        first, end = int(known[0]), int(known[-1]) + 1
        part = slice(first, len(values) if self.ahead else end)
        has_row = np.zeros(len(values), dtype=bool)
        has_row[self.grid.positions] = True
        gaps = np.isnan(values[first:end])
        missing_dates = int((~has_row[first:end]).sum())
        if missing_dates and layout.fill == "refuse":
            absent = self.grid.dates[first + int(np.flatnonzero(~has_row[first:end])[0])]
            count = f"{missing_dates:,} date{'s are' if missing_dates > 1 else ' is'}"
            raise UserError(
                f"{self.where}: {count} missing, the first {written(absent)}; add the rows, or fill them with --set "
                "data.fill=linear (or previous, seasonal, zero)"
            )
        filled = fill_gaps(values[first:end], layout.fill, layout.season)
        dates = self.grid.dates[part]
        past = self._covariates(layout.past_covariates, part, open_end=self.ahead)
        ahead = self._covariates(layout.covariates, part)
        if layout.calendar:
            ahead = np.concatenate([ahead, calendar_features(dates, layout.calendar)], 1)
        repairs = Repairs(missing_dates, int(gaps.sum()) - missing_dates, self.grid.duplicates, self.form)
        return Series(
            name,
            np.concatenate([filled, values[end : part.stop]]),
            past,
            ahead,
            dates,
            np.concatenate([gaps, np.zeros(part.stop - end, dtype=bool)])
            if gaps.any() and layout.fill != "zero"
            else None,
            repairs,
        )

    def _covariates(self, names: Sequence[str], part: slice, open_end: bool = False) -> np.ndarray:
        """(N, columns), their gaps filled from rows before."""
        columns = []
        for name in names:
            values = self.numbers(name)[part]
            known = np.flatnonzero(~np.isnan(values))
            end = int(known[-1]) + 1 if open_end and len(known) else len(values)
            if self.layout.fill != "zero" and (not len(known) or known[0] > 0):
                raise UserError(
                    f"{self.where}: {name} is missing and no number comes before it; remove the rows before its first "
                    "number, or set it to 0 with --set data.fill=zero"
                )
            rule = "zero" if self.layout.fill == "zero" else "previous"
            columns.append(np.concatenate([fill_gaps(values[:end], rule), values[end:]]))
        return np.stack(columns, 1) if columns else np.zeros((part.stop - part.start, 0))

    def numbers(self, column: str) -> np.ndarray:
        """(N,) the numbers of a column on the grid, NaN where there are none."""
        cells = self.table[column]
        values = np.array([_number(cells[row]) for row in self.rows])
        if self.layout.fill == "refuse":
            last = int(np.flatnonzero(~np.isnan(values))[-1]) if self.ahead and not np.isnan(values).all() else None
            for row in np.flatnonzero(np.isnan(values[: None if last is None else last + 1])).tolist():
                cell = str(cells[self.rows[row]])
                what = "is missing" if cell.strip().lower() in NOTHING else f"{cell!r} is no number"
                raise UserError(
                    f"{self.where}, row {self.rows[row] + 1}: {column} {what}; fix it, or fill it with --set "
                    "data.fill=linear (or previous, seasonal, zero)"
                )
        return self.grid.spread(values)


def steps_of_rows(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, Any]]:
    """The series and the cell of every step in a table with a series a row; empty cells at the end are no steps.

    >>> list(steps_of_rows([["a", 1, None, 3], ["b", 4, "", ""]]))
    [('a', 1), ('a', None), ('a', 3), ('b', 4)]
    """
    for name, *cells in rows:
        while cells and str(cells[-1]).strip().lower() in NOTHING:
            cells.pop()
        yield from ((str(name), cell) for cell in cells)


def _step_a_row(source: Any) -> tuple[dict[str, list[Any]], list[str]] | None:
    """A table with a series a row as one with a step a row, and its columns; None where no names come first."""
    rows = list(zip(*read_table(source, header=None).values(), strict=True))
    if not rows or len(rows[0]) < 3 or is_number(str(rows[0][0])) or read_date(rows[0][0]):
        return None
    steps = list(steps_of_rows(rows))
    return {SERIES: [name for name, _ in steps], VALUE: [cell for _, cell in steps]}, [SERIES, VALUE]


def date_column(source: Any, names: list[str], layout: Layout, targets: Sequence[str]) -> str | None:
    """The column of dates: the one that is named, or the first where it holds dates."""
    if layout.date != "auto":
        return None if layout.date == "none" else layout.date
    first = names[0]
    if first in targets or first in layout.groups:
        return None
    cells = read_table(source, [first])[first]
    return first if cells and parse_dates(cells[:100], first).dates[0] is not None else None


def _without_blank_rows(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The table without rows of empty cells, which spreadsheets leave at the end."""
    rows = list(zip(*table.values(), strict=True))
    filled = [row for row in rows if any(cell is not None and str(cell).strip() for cell in row)]
    if len(filled) == len(rows) or len(table) == 1:  # of a single column, empty cells are missing values
        return table
    return {name: [row[position] for row in filled] for position, name in enumerate(table)}


def _common_step(groups: Sequence[Sequence[datetime]]) -> Step | None:
    """The step of most groups, so that all series have one."""
    steps = [step for dates in groups if (step := find_step(dates)) is not None]
    return max(steps, key=steps.count) if steps else None


def _groups(table: dict[str, list[Any]], columns: Sequence[str]) -> list[tuple[str, list[int]]]:
    count = len(next(iter(table.values())))
    if not columns:
        return [("", list(range(count)))]
    rows: dict[str, list[int]] = {}
    for row, names in enumerate(zip(*(table[column] for column in columns), strict=True)):
        rows.setdefault(" ".join(map(str, names)), []).append(row)
    return list(rows.items())


def _several_rows_a_date(source: Any, names: list[str], used: Sequence[str], where: str, grid: Grid, rows: int) -> str:
    """The error for a table of several series that does not name the column which tells them apart."""
    others = [name for name in names if name not in used]
    for column in others:
        cells = read_table(source, [column])[column]
        if len({(str(cell), position) for cell, position in zip(cells, grid.positions.tolist(), strict=False)}) == rows:
            others = [column]
            break
    remedy = f"--set data.group={others[0]}" if len(others) == 1 else "--set data.group=COLUMN"
    return (
        f"{where}: {grid.duplicates:,} of {rows:,} rows have the date of another row; name the column that tells "
        f"series apart with {remedy}, or merge the rows"
    )


def _number(cell: Any) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError):
        return math.nan
    return value if math.isfinite(value) else math.nan
