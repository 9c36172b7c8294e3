"""Dates as people write them, and the step that they are apart."""

from datetime import date, datetime, timedelta
from typing import Any

import pytest

from harken.data.series.dates import parse_dates, read_date, written
from harken.data.series.steps import Step, find_step


@pytest.mark.parametrize(
    ("cells", "name", "expected"),
    [
        (["1949-01", "1949-02"], "", ["1949-01-01", "1949-02-01"]),
        (["1-01", "1-02"], "", ["0001-01-01", "0001-02-01"]),
        (["2016-07-01 13:00:00", "2016-07-01T14:30"], "", ["2016-07-01 13:00", "2016-07-01 14:30"]),
        (["2016/7/1", "2016/7/2"], "", ["2016-07-01", "2016-07-02"]),
        (["20200131", "20200201"], "", ["2020-01-31", "2020-02-01"]),
        (["2020-W05", "2020-W06"], "", ["2020-01-27", "2020-02-03"]),
        (["2020Q1", "2020-Q4", "Q2 2021"], "", ["2020-01-01", "2020-10-01", "2021-04-01"]),
        (["Jan 2020", "February 2020", "Mar-20"], "", ["2020-01-01", "2020-02-01", "2020-03-01"]),
        (["15-Jan-20", "16 Jan 2020"], "", ["2020-01-15", "2020-01-16"]),
        (["January 15, 2020", "Jan 16 2020"], "", ["2020-01-15", "2020-01-16"]),
        (["2020 Jan 5", "2020-Jan-06"], "", ["2020-01-05", "2020-01-06"]),
        (["Mon, 06 Jan 2020 13:00 GMT"], "", ["2020-01-06 13:00"]),
        (["01/2020", "02/2020"], "", ["2020-01-01", "2020-02-01"]),
        (["1/31/2020 1:30 PM", "2/1/2020 12:15 AM"], "", ["2020-01-31 13:30", "2020-02-01 00:15"]),
        (["1880", "1881", "1882"], "temperature of", ["1880-01-01", "1881-01-01", "1882-01-01"]),
        (["1990", "1985"], "Year", ["1990-01-01", "1985-01-01"]),
        (["202001", "202002"], "month", ["2020-01-01", "2020-02-01"]),
        (["1577836800", "1577840400"], "timestamp", ["2020-01-01", "2020-01-01 01:00"]),
        (["1577836800000"], "time", ["2020-01-01"]),
        (["43831", "43831.5"], "Date", ["2020-01-01", "2020-01-01 12:00"]),
        ([date(2020, 1, 1), datetime(2020, 1, 2, 3)], "", ["2020-01-01", "2020-01-02 03:00"]),
    ],
)
def test_dates_are_read(cells: list[Any], name: str, expected: list[str]) -> None:
    assert [value and written(value) for value in parse_dates(cells, name).dates] == expected


@pytest.mark.parametrize(
    ("cells", "expected", "form"),
    [
        (["13/01/2020", "01/02/2020"], ["2020-01-13", "2020-02-01"], "day first"),
        (["01/13/2020", "02/01/2020"], ["2020-01-13", "2020-02-01"], "month first"),
        (["01.02.2020", "02.02.2020"], ["2020-02-01", "2020-02-02"], "day first"),
        (["30/01/2020", "31/01/2020", "01/02/2020"], ["2020-01-30", "2020-01-31", "2020-02-01"], "day first"),
    ],
)
def test_all_cells_say_whether_the_day_comes_first(cells: list[str], expected: list[str], form: str) -> None:
    dates, chosen = parse_dates(cells)
    assert [value and written(value) for value in dates] == expected and chosen == form


def test_two_years_of_first_days_are_months() -> None:
    cells = [f"01/{month:02}/{year}" for year in (2020, 2021) for month in range(1, 13)]
    dates = [value for value in parse_dates(cells).dates if value is not None]
    assert find_step(dates) == Step("month", 1)


def test_zones() -> None:
    summer = ["2020-03-29T00:00+01:00", "2020-03-30T00:00+02:00"]  # local midnights stay midnights
    assert [str(value) for value in parse_dates(summer).dates] == ["2020-03-29 00:00:00", "2020-03-30 00:00:00"]
    winter = ["2020-10-25T02:00+02:00", "2020-10-25T02:00+01:00", "2020-10-25T03:00+01:00"]  # hours stay hours
    assert find_step([value for value in parse_dates(winter).dates if value]) == Step("second", 3600)


@pytest.mark.parametrize("cell", ["5.5", "hello", "", "12:30 is late", "1.2.3.4", "32/13/2020", "v2.0-1", "3 apples"])
def test_other_cells_are_no_dates(cell: str) -> None:
    assert read_date(cell) is None
    assert parse_dates([cell, cell], "price").dates == [None, None]


def every(start: datetime, seconds: float, count: int) -> list[datetime]:
    return [start + timedelta(seconds=seconds * step) for step in range(count)]


MONDAY = datetime(2024, 1, 1)


@pytest.mark.parametrize(
    ("dates", "name", "seasons"),
    [
        (every(MONDAY, 3600, 50), "hourly", (24, 168)),
        (every(MONDAY, 86400, 50), "daily", (7, 365)),
        ([day for day in every(MONDAY, 86400, 50) if day.weekday() < 5], "business days", (5, 261)),
        (every(MONDAY, 7 * 86400, 50), "weekly", (52,)),
        (every(MONDAY, 900, 50), "every 15 minutes", (4, 96, 672)),
        ([datetime(2020 + month // 12, month % 12 + 1, 1) for month in range(30)], "monthly", (12,)),
        ([datetime(2020, month, 30 if month > 2 else 28) for month in range(1, 13)], "monthly", (12,)),
        ([datetime(2020 + quarter // 4, quarter % 4 * 3 + 1, 1) for quarter in range(9)], "quarterly", (4,)),
        ([datetime(year, 1, 1) for year in range(1880, 1990)], "yearly", ()),
    ],
)
def test_the_step_is_found_with_and_without_gaps(dates: list[datetime], name: str, seasons: tuple[int, ...]) -> None:
    for part in (dates, [*dates[:5], *dates[7:]]):
        step = find_step(part)
        assert step is not None and step.name == name and step.seasons == seasons
        assert step.positions(part)[-1] == len(dates) - 1


def test_dates_go_on() -> None:
    def after(dates: list[datetime], steps: int) -> list[datetime]:
        step = find_step(dates)
        assert step is not None
        return step.after(dates, steps)

    hours = [datetime(2016, 7, 1, 22), datetime(2016, 7, 1, 23)]
    assert after(hours, 2) == [datetime(2016, 7, 2, 0), datetime(2016, 7, 2, 1)]
    assert after([datetime(2015, 7, 1), datetime(2015, 10, 1), datetime(2016, 1, 1)], 1) == [datetime(2016, 4, 1)]
    fridays = [day for day in every(MONDAY, 86400, 19) if day.weekday() < 5]
    assert after(fridays, 1) == [datetime(2024, 1, 22)]
    assert find_step(hours[:1]) is None


def test_seconds_are_written() -> None:
    assert read_date(written(datetime(2020, 1, 1, 2, 3, 4))) == datetime(2020, 1, 1, 2, 3, 4)
    assert written(datetime(1, 1, 1)) == "0001-01-01"
