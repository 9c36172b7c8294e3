"""From a table of numbers over time to a recipe for forecasting: dates, series, the season and the window.

The season is chosen on the validation part, among those that often go with the step of the dates, by the error of the
seasonal naive forecast.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from harken.data.series.dates import parse_dates
from harken.data.series.seasons import choose_season
from harken.data.series.series import Layout, Series, describe, read_series
from harken.data.series.steps import DAY, Step, find_step
from harken.errors import UserError
from harken.recipe.infer.columns import Table
from harken.recipe.infer.inferred import Inferred

SAMPLE = 1000  # cells of a column that are looked at for dates
VALID, TEST = 0.2, 0.2  # shares of the rows, as `data.valid_size` and `data.test_size` have them
LONGEST_WINDOW = 200  # steps; a longer season is left to calendar features
LONGEST_HORIZON = 48
DEFAULT_WINDOW, DEFAULT_HORIZON = 36, 6


def infer_series(table: Table, target: str | None) -> Inferred:
    """The recipe of a table of series; raises UserError as `infer`."""
    if not table.has_header:
        raise UserError(f"{table.path} has no first line with the names of its columns, as a series needs; add one")
    date = _date_column(table)
    numbers = [column.name for column in table.columns if column.is_number and column.name != date]
    if not numbers:
        raise UserError(f"{table.path} has no column of numbers to forecast; check the file")
    group = _group_columns(table, date, target or numbers[-1]) if date else []
    values = [name for name in numbers if name not in group] or numbers
    targets = [target] if target else values[-1:] if group else _alike(values)
    data: dict[str, Any] = {"train": table.path, "target_column": targets[0] if len(targets) == 1 else targets}
    if date and date != table.names[0]:
        data["date_column"] = date
    if group:
        data["group"] = group[0] if len(group) == 1 else group
    others = len([name for name in values if name not in targets])
    reason = f"{', '.join(targets[:3])}{' ...' if len(targets) > 3 else ''} over time"
    reason += f"; {others} other columns of numbers are not read" if others else ""
    series = _read(table, data)
    step = find_step(series[0].dates) if series else None
    count = sorted(map(len, series))[len(series) // 2] if series else len(table.rows)
    window, horizon = sizes(step)
    horizon = max(1, min(horizon, count // 10))
    season, errors = _season(series, step, horizon)
    if 1 < season <= LONGEST_WINDOW:
        window = max(window, season + horizon)
    data |= {"season": season, "window": max(2, min(window, count // 4)), "horizon": horizon}
    if calendar := _calendar(step, count):
        data["calendar"] = calendar
    if any((part.observed <= 0).any() for part in series):
        data["transform"] = "none"  # also where the training part alone has a logarithm
    tried = ", ".join(f"{length} {error:.3g}" for length, error in errors.items())
    reason += "; no season" if season == 1 else f"; a season of {season}"
    reason += f", by the error of seasonal naive on validation: {tried}" if tried else ""
    return Inferred("forecast", "; ".join(filter(None, [reason, describe(series, "linear")])), data)


def sizes(step: Step | None) -> tuple[int, int]:
    """The window and the horizon that suit a step: a day of hours, a week of days, a year of months.

    >>> [sizes(step) for step in (Step("second", 3600), Step("second", 86400), Step("month"), Step("month", 12), None)]
    [(96, 24), (56, 7), (36, 12), (36, 6), (36, 6)]
    """
    if step is None or not step.seasons:
        return DEFAULT_WINDOW, DEFAULT_HORIZON
    if step.unit == "second" and step.count < DAY:
        horizon = min(LONGEST_HORIZON, DAY // step.count)
        return 4 * horizon, horizon
    shortest = min(step.seasons)
    return (8 * shortest if shortest in (5, 7) else DEFAULT_WINDOW), min(13, shortest)


def _season(series: Sequence[Series], step: Step | None, horizon: int) -> tuple[int, dict[int, float]]:
    """The season with the smallest error on the validation parts, and all errors."""
    if step is None:
        return 1, {}
    parts = []
    for values in series:
        end = len(values) - round(TEST * len(values))
        parts.append((end - round(VALID * len(values)), end))
    return choose_season([(values.target, values.measured) for values in series], parts, horizon, (1, *step.seasons))


def _calendar(step: Step | None, count: int) -> list[str]:
    """Features that two rounds of the training part can teach."""
    if step is None or step.unit == "month":
        return []
    days = 5 / 7 if step.unit == "business day" else DAY / step.count  # steps a day
    names = [("hour", 1.0)] * (days > 1) + [("weekday", 7.0)] * (days > 1 / 7) + [("day", 365.0)]
    return [name for name, length in names if (1 - VALID - TEST) * count >= 2 * length * days]


def _read(table: Table, data: dict[str, Any]) -> list[Series]:
    """The series of the rows that were looked at; none where training will refuse them, and say why."""
    columns = {name: [row[position] for row in table.rows] for position, name in enumerate(table.names)}
    value = data["target_column"]
    targets = [value] if isinstance(value, str) else value
    layout = Layout(targets, data.get("date_column", "auto"), group=data.get("group"))
    try:
        return read_series(columns, layout)
    except UserError:
        return []


def _date_column(table: Table) -> str | None:
    """The first column of which all cells are dates."""
    for name in table.names:
        cells = [cell for cell in table.beginning(name, SAMPLE) if cell.strip()]
        if cells and None not in parse_dates(cells, name).dates:
            return name
    return None


def _group_columns(table: Table, date: str, value: str) -> list[str]:
    """The column, or the two, that tell rows of one date apart; none where every date occurs once."""
    dates = [row[table.names.index(date)] for row in table.rows]
    if len(set(dates)) == len(dates):
        return []
    others = [column.name for column in table.columns if column.is_label and column.name not in (date, value)]
    for names in (*((name,) for name in others), *combinations(others, 2)):
        positions = [table.names.index(name) for name in names]
        keys = {(day, *(row[position] for position in positions)) for day, row in zip(dates, table.rows, strict=True)}
        if len(keys) == len(dates):
            return list(names)
    return []


def _alike(names: Sequence[str]) -> list[str]:
    """All columns where their names differ in their numbers alone, as MT_001 and MT_002; else the last.

    >>> _alike(["T1", "T2", "T10"]), _alike(["high", "low", "close"])
    (['T1', 'T2', 'T10'], ['close'])
    """
    stems = {re.sub(r"\d+", "", name) for name in names}
    return list(names) if len(stems) == 1 and len(names) > 1 else [names[-1]]
