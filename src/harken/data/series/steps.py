"""The step of a series: how far apart its rows are, where each date lies on that grid, and which seasons may suit it.

    month          1, 3 or 12 months apart, on one day of the month or at its end
    business day   days apart, never on a Saturday or Sunday
    second         a fixed number of seconds apart: hours, days, weeks

>>> months = [datetime(1990, 1, 31), datetime(1990, 2, 28), datetime(1990, 4, 30)]
>>> step = find_step(months)
>>> step.name, step.positions(months).tolist(), step.seasons
('monthly', [0.0, 1.0, 3.0], (12,))
>>> [str(date.date()) for date in step.after(months, 2)]
['1990-05-31', '1990-06-30']
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Literal

import numpy as np

MINUTE, HOUR, DAY, WEEK, YEAR = 60, 3600, 86_400, 604_800, 365 * 86_400  # seconds
PERIODS = (MINUTE, HOUR, DAY, WEEK, YEAR)  # after which a series may be alike
LONGEST_SEASON = 1500  # steps
BUSINESS_DAYS = 10  # dates from which on a week without its end is no chance
NAMES = {
    ("month", 1): "monthly", ("month", 3): "quarterly", ("month", 12): "yearly", ("business day", 1): "business days",
    ("second", WEEK): "weekly", ("second", DAY): "daily", ("second", HOUR): "hourly",
}  # fmt: skip
UNITS = ((WEEK, "weeks"), (DAY, "days"), (HOUR, "hours"), (MINUTE, "minutes"), (1, "seconds"))


@dataclass(frozen=True)
class Step:
    """The distance of two rows."""

    unit: Literal["second", "business day", "month"]
    count: int = 1

    @property
    def name(self) -> str:
        """Such as "daily" or "every 15 minutes"."""
        if self.unit == "month":
            return NAMES.get((self.unit, self.count), f"every {self.count} months")
        size, unit = next((size, unit) for size, unit in UNITS if self.count % size == 0)
        return NAMES.get((self.unit, self.count), f"every {self.count // size} {unit}")

    @property
    def seasons(self) -> tuple[int, ...]:
        """Seasons that series with this step often have, in steps."""
        if self.unit == "business day":
            return (5, 261)
        if self.unit == "month":
            return (12 // self.count,) if self.count < 12 and 12 % self.count == 0 else ()
        lengths = [round(period / self.count) for period in PERIODS if period == YEAR or period % self.count == 0]
        return tuple(length for length in lengths if 2 <= length <= LONGEST_SEASON)

    def positions(self, dates: Sequence[datetime]) -> np.ndarray:
        """(N,) how many steps each date lies after the first, whole numbers on the grid."""
        if self.unit == "month":
            months = np.array([date.year * 12 + date.month for date in dates], dtype=np.float64)
            return (months - months[0]) / self.count
        if self.unit == "business day":
            days = np.array([date.date() for date in dates], dtype="datetime64[D]")
            return np.busday_count(days[0], days).astype(np.float64)
        seconds = np.array([(date - dates[0]).total_seconds() for date in dates])
        return seconds / self.count

    def after(self, dates: Sequence[datetime], steps: int) -> list[datetime]:
        """The dates that come next."""
        return self._dates(dates[-1], range(1, steps + 1), dates)

    def grid(self, dates: Sequence[datetime], length: int) -> list[datetime]:
        """The first date and those that follow it without a gap."""
        return self._dates(dates[0], range(length), dates)

    def _dates(self, start: datetime, steps: range, dates: Sequence[datetime]) -> list[datetime]:
        if self.unit == "month":
            day = max(date.day for date in dates[-12:])  # the last of a month stays the last
            return [_months_after(start, self.count * step, day) for step in steps]
        if self.unit == "business day":
            days = np.busday_offset(np.datetime64(start, "D"), np.array(steps, dtype=np.int64), roll="backward")
            return [datetime.combine(day, start.time()) for day in days.tolist()]
        return [start + timedelta(seconds=self.count * step) for step in steps]


def find_step(dates: Sequence[datetime]) -> Step | None:
    """The step of dates that rise, by the most frequent distance; None for less than two dates."""
    if len(dates) < 2:
        return None
    months = [(later.year - earlier.year) * 12 + later.month - earlier.month for earlier, later in pairwise(dates)]
    if min(months) >= 1 and _are_month_days(dates, months):
        return Step("month", _usual(months))
    usual = _usual([round((later - earlier).total_seconds()) for earlier, later in pairwise(dates)])
    has_weekend = any(date.weekday() >= 5 for date in dates)
    if usual == DAY and len(dates) >= BUSINESS_DAYS and not has_weekend:
        return Step("business day")
    return Step("second", max(1, usual))


def _usual(distances: Sequence[int]) -> int:
    """The most frequent, and of equally frequent ones the smallest."""
    counts = Counter(distances)
    return min(counts, key=lambda distance: (-counts[distance], distance))


def _are_month_days(dates: Sequence[datetime], months: Sequence[int]) -> bool:
    """Whether dates in different months mean these months: the same day of each, its last, or nearly a month apart."""
    if len({date.day for date in dates}) == 1:
        return True
    if all(date.day == monthrange(date.year, date.month)[1] for date in dates):
        return True
    days = [(later - earlier).days for earlier, later in pairwise(dates)]
    nearly = all(26 * count <= distance <= 35 + 31 * (count - 1) for distance, count in zip(days, months, strict=True))
    return nearly and len(set(days)) > 1


def _months_after(date: datetime, months: int, day: int) -> datetime:
    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    return date.replace(year=year, month=month + 1, day=min(day, monthrange(year, month + 1)[1]))
