"""Dates of a series: read, checked to rise, carried on into the future, and turned into calendar features.

    1949-01   1-01   1990-12-31   2016-07-01 13:00:00   and other forms of ISO 8601

A feature that comes round is two numbers, sin and cos of 2 pi place / period, so that December lies beside January.

>>> days = read_dates(["1990-01-31", "1990-02-28", "1990-03-31"], "x.csv")
>>> [str(day.date()) for day in carry_on(days, 2)]
['1990-04-30', '1990-05-31']
>>> calendar_features(read_dates(["2016-07-01 06:00", "2016-07-01 12:00"], "x.csv"), ["hour"]).round(6).tolist()
[[1.0, 0.0], [0.0, -1.0]]
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from harken.errors import UserError

PERIODS = {"month": 12.0, "day": 365.25, "weekday": 7.0, "hour": 24.0}
YEAR_AND_MONTH = re.compile(r"(\d{1,4})-(\d{1,2})")


def read_date(cell: Any) -> datetime | None:
    """One date, or None where the cell holds none."""
    if isinstance(cell, datetime):
        return cell
    text = str(cell).strip()
    month = YEAR_AND_MONTH.fullmatch(text)
    try:
        if month:
            return datetime(int(month[1]), int(month[2]), 1)
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


def read_dates(cells: Sequence[Any], where: str) -> list[datetime]:
    """All dates of a column, each later than the one before.

    Raises:
        UserError: a cell that is no date, or dates that do not rise.
    """
    dates: list[datetime] = []
    for row, cell in enumerate(cells, start=1):
        date = read_date(cell)
        if date is None:
            raise UserError(
                f"{where}, row {row}: {str(cell)!r} is no date; write 1990-12, 1990-12-31 or 1990-12-31 13:00, or set "
                'data.date_column = "none"'
            )
        if dates and date <= dates[-1]:
            raise UserError(
                f"{where}, row {row}: {str(cell)!r} does not come after the row before; sort the rows by time, and "
                "name the column that tells series apart as data.group if there are several"
            )
        dates.append(date)
    return dates


def carry_on(dates: Sequence[datetime], steps: int) -> list[datetime]:
    """The dates that come next: months after months, else the most frequent step."""
    if len(dates) < 2:
        return []
    gaps = [(later.year - earlier.year) * 12 + later.month - earlier.month for earlier, later in pairwise(dates)]
    last = dates[-1]
    if min(gaps) == max(gaps) > 0:
        day = max(date.day for date in dates[-12:])  # the last of a month stays the last
        return [_months_after(last, gaps[0] * step, day) for step in range(1, steps + 1)]
    spacings = [later - earlier for earlier, later in pairwise(dates)]
    usual: timedelta = max(set(spacings), key=spacings.count)
    return [last + usual * step for step in range(1, steps + 1)]


def _months_after(date: datetime, months: int, day: int) -> datetime:
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    return date.replace(year=year, month=month + 1, day=min(day, monthrange(year, month + 1)[1]))


def calendar_features(dates: Sequence[datetime], names: Sequence[str]) -> np.ndarray:
    """(N, 2 for each name): where each date lies in its year, week or day."""
    columns = []
    for name in names:
        positions = np.array([_position(date, name) for date in dates], dtype=np.float64)
        columns += [np.sin(2 * np.pi * positions / PERIODS[name]), np.cos(2 * np.pi * positions / PERIODS[name])]
    return np.stack(columns, 1) if columns else np.zeros((len(dates), 0))


def _position(date: datetime, name: str) -> float:
    if name == "month":
        return date.month - 1
    if name == "day":
        return date.timetuple().tm_yday - 1
    return date.weekday() + date.hour / 24 if name == "weekday" else date.hour + date.minute / 60


def written(date: datetime) -> str:
    """A date in its shortest complete form.

    >>> written(datetime(1990, 12, 1)), written(datetime(1990, 12, 1, 13))
    ('1990-12-01', '1990-12-01 13:00')
    """
    return date.strftime("%Y-%m-%d %H:%M").zfill(16).removesuffix(" 00:00")
