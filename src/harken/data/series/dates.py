"""Dates of a series: read as people write them, and turned into calendar features.

    1949-01   1990-12-31   2016-07-01 13:00:00+02:00   20161231   2016-W05       ISO 8601
    31/12/2016   12/31/2016   31.12.16 1:30 PM       day or month first, as all cells together say
    Jan 2020   15-Jan-20   January 15, 2020          English names of months
    2020Q1   Q1 2020   1990                          quarters and years
    1577836800   43831                               seconds since 1970, days of Excel, in a column that says date

A feature that comes round is two numbers, sin and cos of 2 pi position / period, so that December lies beside January.

>>> [str(date) for date in parse_dates(["31/1/2020 9:30 PM", "1/2/2020 0:15"]).dates]
['2020-01-31 21:30:00', '2020-02-01 00:15:00']
>>> [str(date.date()) for date in parse_dates(["43831", "43862"], "Date").dates]
['2020-01-01', '2020-02-01']
>>> dates = parse_dates(["2016-07-01 06:00", "2016-07-01 12:00"]).dates
>>> calendar_features(dates, ["hour"]).round(6).tolist()
[[1.0, 0.0], [0.0, -1.0]]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from harken.data.series.steps import find_step
from harken.errors import UserError

PERIODS = {"month": 12.0, "day": 365.25, "weekday": 7.0, "hour": 24.0}
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAME = r"(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
CLOCK = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?\s*([ap]\.?m\.?)?\s*(z|utc|gmt|[+-]\d{2}:?\d{2})?", re.IGNORECASE
)
DIGITS = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})")
YEAR_AND_MONTH = re.compile(r"(\d{1,4})-(\d{1,2})|(\d{4})/(\d{1,2})")
MONTH_AND_YEAR = re.compile(r"(\d{1,2})[-/](\d{4})")
QUARTER = re.compile(r"(\d{4})[-/ ]?Q([1-4])|Q([1-4])[-/ ]?(\d{4})", re.IGNORECASE)
DAY_MONTH_YEAR = re.compile(rf"(?:(\d{{1,2}})[ ./-]+)?({MONTH_NAME})[ ,./'-]+(\d{{4}}|\d{{2}})", re.IGNORECASE)
MONTH_DAY_YEAR = re.compile(rf"({MONTH_NAME})[ .-]+(\d{{1,2}})(?:st|nd|rd|th)?,?[ -]+(\d{{4}})", re.IGNORECASE)
YEAR_MONTH_NAME = re.compile(rf"(\d{{4}})[ ./-]+({MONTH_NAME})(?:[ ./-]+(\d{{1,2}}))?", re.IGNORECASE)
WEEKDAY = re.compile(r"(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[,. ]+", re.IGNORECASE)
DATE_NAMES = re.compile(
    r"(?:^|[^a-z])(?:date|datetime|time|timestamp|year|month|day|week|quarter|period|epoch|ds|dt)(?:$|[^a-z])"
)
AMBIGUOUS = re.compile(r"\d{1,2}([-/.])\d{1,2}\1\d")
LONGEST = 40  # characters of a date
EXCEL = datetime(1899, 12, 30)  # day 0
EXCEL_DAYS = (20_000, 80_000)  # the years 1954 to 2119
EPOCH = datetime(1970, 1, 1)


class Dates(NamedTuple):
    """The dates of a column, and how it was read."""

    dates: list[datetime | None]  # None: the cell holds none
    form: str  # "day first", "seconds since 1970" ...; "" where there is no choice


def read_date(cell: Any) -> datetime | None:
    """One date, or None where the cell holds none; a whole column is read by `parse_dates`, which knows more."""
    parsed = _parse_cell(cell, False) or _parse_cell(cell, True)
    return parsed and parsed.replace(tzinfo=None)


def parse_dates(cells: Sequence[Any], name: str = "") -> Dates:
    """Read a column; whether day or month comes first, and what bare numbers mean, is decided from all cells.

    Args:
        name: of the column; bare numbers are dates where it says so.
    """
    texts = [str(cell).strip() for cell in cells if not isinstance(cell, date)]
    numbers = [_number(text) for text in texts if text]
    if numbers and None not in numbers:
        read, form = _number_reader([number for number in numbers if number is not None], name)
        return Dates([read(number) if (number := _number(cell)) is not None else None for cell in cells], form)
    month_first = _read_column(cells, day_first=False)
    if not any(map(AMBIGUOUS.match, texts)):
        return Dates(month_first, "")
    readings = {"month first": month_first, "day first": _read_column(cells, day_first=True)}
    forms = sorted(readings, reverse=not any("." in text for text in texts))  # dots: day first where both are as likely
    form = min(forms, key=lambda form: _disorder(readings[form]))
    return Dates(readings[form], form)


def require_dates(cells: Sequence[Any], name: str, where: str) -> tuple[list[datetime], str]:
    """All dates of a column, and how it was read.

    Raises:
        UserError: a cell that is no date.
    """
    dates, form = parse_dates(cells, name)
    row = next((row for row, value in enumerate(dates) if value is None), None)
    if row is not None:
        raise UserError(
            f"{where}, row {row + 1}: {str(cells[row])!r} is no date; write 1990-12, 1990-12-31 or 1990-12-31 13:00, "
            "or take the rows as steps of equal length with --set data.date_column=none"
        )
    return [value for value in dates if value is not None], form


def says_date(name: str) -> bool:
    """Whether the name of a column says that it holds dates.

    >>> [says_date(name) for name in ("Date", "orderDate", "start_time", "lifetime", "update")]
    [True, True, True, False, False]
    """
    return DATE_NAMES.search(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()) is not None


def _number(cell: Any) -> float | None:
    try:
        return None if isinstance(cell, date) else float(cell)
    except (TypeError, ValueError):
        return None


def _number_reader(numbers: list[float], name: str) -> tuple[Callable[[float], datetime | None], str]:
    """The function that reads a column of bare numbers as dates."""
    low, high, is_whole = min(numbers), max(numbers), all(number.is_integer() for number in numbers)
    is_rising = all(later - earlier == 1 for earlier, later in pairwise(numbers)) and len(numbers) > 2
    if is_whole and low >= 1000 and high < 3000 and (says_date(name) or (is_rising and low >= 1500 and high <= 2100)):
        return _year, ""
    if is_whole and low >= 15_000_000 and high < 30_000_000 and all(map(_compact, numbers)):
        return _compact, ""
    if not says_date(name):
        return lambda number: None, ""
    if is_whole and low >= 150_000 and high < 300_000 and all(map(_year_and_month, numbers)):
        return _year_and_month, ""
    if EXCEL_DAYS[0] <= low and high <= EXCEL_DAYS[1]:
        return lambda number: EXCEL + timedelta(seconds=round(number * 86_400)), "days of Excel"
    for power, unit in ((0, "seconds"), (3, "milliseconds"), (6, "microseconds"), (9, "nanoseconds")):
        if low / 10**power >= 1e8 and high / 10**power < 1e10:
            return partial(_since_epoch, power=power), f"{unit} since 1970"
    return lambda number: None, ""


def _since_epoch(number: float, power: int) -> datetime:
    return EPOCH + timedelta(seconds=round(number / 10**power, 3))


def _year(number: float) -> datetime:
    return datetime(int(number), 1, 1)


def _compact(number: float) -> datetime | None:
    return _built(int(number) // 10_000, int(number) // 100 % 100, int(number) % 100)


def _year_and_month(number: float) -> datetime | None:
    return _built(int(number) // 100, int(number) % 100, 1)


def _built(year: int, month: int, day: int) -> datetime | None:
    try:
        return datetime(year, month, day)
    except ValueError:
        return None


def _read_column(cells: Sequence[Any], day_first: bool) -> list[datetime | None]:
    return _without_zones([_parse_cell(cell, day_first) for cell in cells])


def _parse_cell(cell: Any, day_first: bool) -> datetime | None:
    if isinstance(cell, date):
        moment = cell if isinstance(cell, datetime) else datetime.combine(cell, time())
        return moment if moment == moment else None  # pandas' NaT is no date
    text = str(cell).strip()
    is_short = len(text) <= LONGEST and any(map(str.isdigit, text))
    return _parse(text, day_first) if is_short else None


def _parse(text: str, day_first: bool) -> datetime | None:
    """One date as text, with its zone."""
    if month := YEAR_AND_MONTH.fullmatch(text):
        return _built(int(month[1] or month[3]), int(month[2] or month[4]), 1)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    clock = CLOCK.search(text)
    day = _parse_day(WEEKDAY.sub("", text[: clock.start()] if clock else text).strip(" ,T"), day_first)
    return _at(day, clock) if day is not None and clock is not None else day


def _parse_day(text: str, day_first: bool) -> datetime | None:
    if match := DIGITS.fullmatch(text):
        first, second, third = int(match[1]), int(match[3]), int(match[4])
        if len(match[1]) > 2:
            return _built(first, second, third)
        day, month = (first, second) if day_first else (second, first)
        return _built(_full_year(match[4]), month, day)
    if match := YEAR_AND_MONTH.fullmatch(text):
        return _built(int(match[1] or match[3]), int(match[2] or match[4]), 1)
    if match := MONTH_AND_YEAR.fullmatch(text):
        return _built(int(match[2]), int(match[1]), 1)
    if match := QUARTER.fullmatch(text):
        return _built(int(match[1] or match[4]), 3 * int(match[2] or match[3]) - 2, 1)
    if match := DAY_MONTH_YEAR.fullmatch(text):
        return _built(_full_year(match[3]), _month(match[2]), int(match[1] or 1))
    if match := MONTH_DAY_YEAR.fullmatch(text):
        return _built(int(match[3]), _month(match[1]), int(match[2]))
    if match := YEAR_MONTH_NAME.fullmatch(text):
        return _built(int(match[1]), _month(match[2]), int(match[3] or 1))
    return None


def _month(name: str) -> int:
    return MONTHS.index(name[:3].lower()) + 1


def _full_year(digits: str) -> int:
    """A year of two digits lies between 1970 and 2069."""
    year = int(digits)
    return year if len(digits) > 2 else year + (1900 if year >= 70 else 2000)


def _at(day: datetime, clock: re.Match[str]) -> datetime | None:
    hour = int(clock[1])
    if clock[4]:
        hour = hour % 12 + 12 * (clock[4][0] in "pP")
    try:
        moment = day.replace(hour=hour, minute=int(clock[2]), second=int(clock[3] or 0))
    except ValueError:
        return None
    if not (zone := clock[5]):
        return moment
    if zone[0] not in "+-":
        return moment.replace(tzinfo=UTC)
    offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:])) * (-1 if zone[0] == "-" else 1)
    return moment.replace(tzinfo=timezone(offset))


def _without_zones(dates: list[datetime | None]) -> list[datetime | None]:
    """Local times where all have one offset or one time of the day; else UTC, which has no summer time."""
    aware = [value for value in dates if value is not None and value.tzinfo is not None]
    is_local = len({value.utcoffset() for value in aware}) <= 1 or len({value.time() for value in aware}) == 1
    if not aware:
        return dates
    return [
        value if value is None or value.tzinfo is None
        else (value if is_local else value.astimezone(UTC)).replace(tzinfo=None)
        for value in dates
    ]  # fmt: skip


def _disorder(dates: Sequence[datetime | None]) -> tuple[int, int, float]:
    """The disorder of a reading: cells that are no dates, rows that do not rise or fall, steps that are missing."""
    known = [value for value in dates if value is not None]
    falls = sum(later < earlier for earlier, later in pairwise(known))
    rises = sum(later > earlier for earlier, later in pairwise(known))
    ordered = sorted(set(known))
    step = find_step(ordered)
    return len(dates) - len(known), min(falls, rises), step.positions(ordered)[-1] / len(ordered) if step else 0.0


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

    >>> written(datetime(1990, 12, 1)), written(datetime(1990, 12, 1, 13)), written(datetime(1990, 12, 1, 0, 0, 5))
    ('1990-12-01', '1990-12-01 13:00', '1990-12-01 00:00:05')
    """
    return date.isoformat(" ", "seconds").removesuffix(":00").removesuffix(" 00:00")
