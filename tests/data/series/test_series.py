"""Series out of tables: columns, groups, dates, gaps, and a user's mistakes."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.series.dates import calendar_features
from harken.data.series.grid import fill_gaps
from harken.data.series.series import Layout, Repairs, describe, read_series
from harken.data.synthetic.seasons import make_seasons
from harken.errors import UserError


def write(folder: Path, text: str) -> Path:
    path = folder / "series.csv"
    path.write_text(text)
    return path


def test_the_last_column_is_the_target_and_the_first_the_date(tmp_path: Path) -> None:
    [series] = read_series(write(tmp_path, '"Month","Sales"\n"1-01",266.0\n"1-02",145.9'), Layout())
    assert series.name == "Sales"
    assert series.target.tolist() == [266.0, 145.9]
    assert series.dates == [datetime(1, 1, 1), datetime(1, 2, 1)]


def test_groups_targets_and_covariates(tmp_path: Path) -> None:
    path = write(tmp_path, "shop,day,a,b,sale,heat\nx,2024-01-01,1,2,0,9\ny,2024-01-01,3,4,1,8\nx,2024-01-02,5,6,1,7\n")
    layout = Layout(["a", "b"], "day", ["sale"], ["heat"], "shop", ["weekday"])
    found = read_series(path, layout)
    assert [series.name for series in found] == ["x a", "x b", "y a", "y b"]
    assert found[1].target.tolist() == [2.0, 6.0]
    assert found[0].past.tolist() == [[9.0], [7.0]]
    monday, tuesday = found[0].known
    assert monday.tolist() == [0.0, 0.0, 1.0]
    assert tuesday.tolist() == pytest.approx([1.0, np.sin(2 * np.pi / 7), np.cos(2 * np.pi / 7)])


@pytest.mark.parametrize(
    ("fill", "expected"),
    [
        ("linear", [1.0, 2.0, 3.0, 4.0]),
        ("previous", [1.0, 1.0, 1.0, 4.0]),
        ("seasonal", [1.0, 1.0, 1.0, 4.0]),
        ("zero", [1.0, 0.0, 0.0, 4.0]),
    ],
)
def test_gaps_are_filled_as_asked(tmp_path: Path, fill: str, expected: list[float]) -> None:
    [series] = read_series(write(tmp_path, "y\n1\nNA\n?\n4\n"), Layout(fill=fill))
    assert series.target.tolist() == expected and series.repairs.missing_values == 2
    assert series.measured.tolist() == ([True] * 4 if fill == "zero" else [True, False, False, True])


@given(
    st.lists(st.one_of(st.none(), st.floats(-9, 9)), min_size=1, max_size=30),
    st.sampled_from(["linear", "previous", "seasonal"]),
    st.integers(1, 5),
)
def test_filling_changes_nothing_that_was_measured(past: list[float | None], fill: str, season: int) -> None:
    values = np.array([1.0, *past, 2.0], dtype=float)
    whole = fill_gaps(values, fill, season)
    assert np.isfinite(whole).all() and np.array_equal(whole[~np.isnan(values)], values[~np.isnan(values)])


DAYS = [datetime(2023, 1, 1) + timedelta(days=day) for day in range(400)]


def days_without(missing: set[int], repeated: tuple[int, ...] = ()) -> dict[str, list[Any]]:
    """A year of days, newest first, without some and with others twice."""
    numbers = sorted([*(set(range(400)) - missing), *repeated], reverse=True)
    return {"day": [DAYS[number].date().isoformat() for number in numbers], "y": [float(number) for number in numbers]}


def test_89_missing_dates_are_found_filled_and_counted() -> None:
    missing = set(range(100, 150)) | set(range(300, 339))
    [series] = read_series(days_without(missing, (7, 7)), Layout())
    assert len(series) == 400 and series.dates == DAYS
    assert np.allclose(series.target, np.arange(400.0))
    assert set(np.flatnonzero(series.filled).tolist()) == missing
    assert series.repairs == Repairs(missing_dates=89, missing_values=0, duplicates=2)
    assert describe([series], "linear") == (
        "daily from 2023-01-01 to 2024-02-04; 89 missing dates filled (linear), 2 rows averaged with others of the "
        "same date"
    )


def test_empty_rows_at_the_end_of_a_spreadsheet_are_left_out(tmp_path: Path) -> None:
    [series] = read_series(write(tmp_path, "day,y\n2024-01-01,1\n2024-01-02,2\n,\n,\n"), Layout())
    assert series.target.tolist() == [1, 2] and series.repairs == Repairs()


def test_rows_of_one_date_are_averaged() -> None:
    [series] = read_series(
        {"day": ["2023-01-11", "2023-01-10", "2023-01-11", *map(str, DAYS[:9])], "y": range(12)}, Layout()
    )
    assert series.target[-2:].tolist() == [1.0, 1.0] and series.repairs.duplicates == 1


def test_several_rows_a_date_are_several_series() -> None:
    table = {
        "day": [day for day in map(str, DAYS[:20]) for _ in "ab"],
        "note": ["x"] * 40,
        "shop": ["a", "b"] * 20,
        "y": range(40),
    }
    with pytest.raises(UserError, match=r"20 of 40 rows have the date of another row; .* --set data\.group=shop"):
        read_series(table, Layout())
    assert [series.name for series in read_series(table, Layout(group="shop"))] == ["a", "b"]
    assert len(read_series({**table, "city": ["c", "d"] * 20}, Layout(["y"], "day", group=["city", "shop"]))) == 2


def test_series_of_different_lengths_and_starts() -> None:
    wide = {"day": list(map(str, DAYS[:6])), "a": [None, None, 1, 2, None, 4], "b": [5, 6, 7, None, None, None]}
    a, b = read_series(wide, Layout(["a", "b"]))
    assert a.target.tolist() == [1, 2, 3, 4] and a.dates == DAYS[2:6] and a.repairs.missing_values == 1
    assert b.target.tolist() == [5, 6, 7] and b.dates == DAYS[:3] and b.repairs.missing_values == 0
    long = {"shop": ["x", "x", "y", "x"], "day": [str(DAYS[day]) for day in (0, 1, 5, 3)], "y": [1, 2, 9, 4]}
    x, y = read_series(long, Layout(["y"], "day", group="shop"))
    assert x.target.tolist() == [1, 2, 3, 4] and y.target.tolist() == [9]


def test_dates_without_a_step_are_refused() -> None:
    random = np.random.default_rng(3)
    days = np.cumsum(random.uniform(0.1, 3, 50))
    table = {"when": [str(DAYS[0] + timedelta(days=float(day))) for day in days], "y": range(50)}
    with pytest.raises(UserError, match=r"not evenly spaced .* --set data\.date_column=none"):
        read_series(table, Layout())
    sparse = {"day": [str(DAYS[day]) for day in (0, 1, 2, 50, 51, 100, 101)], "y": range(7)}
    with pytest.raises(UserError, match=r"most are daily, but 95 of 102 steps have no row"):
        read_series(sparse, Layout())
    assert len(read_series(sparse, Layout(["y"], "none"))[0]) == 7


@pytest.mark.parametrize(
    ("text", "layout", "sentence"),
    [
        ("y\n1\n\n?\n", Layout(fill="refuse"), r"row 2: y is missing; fix it, or fill it with --set data.fill=linear"),
        ("y\n1\nten\n", Layout(fill="refuse"), "row 2: y 'ten' is no number"),
        (
            "day,y\n2024-01-02,1\n2024-01-03,1\n2024-01-05,2\n",
            Layout(fill="refuse"),
            "1 date is missing, the first 2024-01-04; add the rows, or fill them with --set data.fill=linear",
        ),
        ("y\nNA\nNA\n", Layout(fill="zero"), "the column y has no number at all"),
        ("heat,y\nNA,1\n1,2\n", Layout(past_covariates=["heat"]), "heat is missing and no number comes before it"),
        ("y\n", Layout(), "has no rows below its header"),
        ("day,y\n2024-01-02,1\nsoon,2\n", Layout(), "row 2: 'soon' is no date"),
        ("x,y\n1,2\n", Layout(calendar=["month"], date="none"), "has no dates, but data.calendar is"),
        ("day,temperature\n2024-01-02,1\n", Layout(["temprature"]), "did you mean 'temperature'"),
    ],
)
def test_mistakes_get_one_sentence(tmp_path: Path, text: str, layout: Layout, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence) as problem:
        read_series(write(tmp_path, text), layout)
    assert "\n" not in str(problem.value)


def test_rows_without_a_target_are_steps_ahead(tmp_path: Path) -> None:
    path = write(tmp_path, "sale,y\n0,1\n1,2\n1,\n0,\n")
    [series] = read_series(path, Layout(covariates=["sale"]), ahead=True)
    assert np.isnan(series.target).tolist() == [False, False, True, True]
    assert series.known[:, 0].tolist() == [0.0, 1.0, 1.0, 0.0]
    assert read_series(path, Layout(covariates=["sale"]))[0].target.tolist() == [1, 2]


def test_calendar_features_come_round() -> None:
    days = [datetime(2024, 1, 1), datetime(2024, 7, 1), datetime(2024, 12, 1), datetime(2025, 1, 1)]
    month = calendar_features(days, ["month"])
    assert month[0].tolist() == month[3].tolist() == [0.0, 1.0]
    assert month[1].tolist() == pytest.approx([0.0, -1.0], abs=1e-9)
    assert np.linalg.norm(month[2] - month[0]) < np.linalg.norm(month[1] - month[0])


def test_made_series_have_what_they_are_made_of() -> None:
    first, second = make_seasons(2, 600, seed=3)
    assert not np.allclose(first.target, second.target)
    sale = first.known[:, 0] > 0
    detrended = first.target - np.convolve(first.target, np.ones(7) / 7, "same")
    assert detrended[sale].mean() - detrended[~sale].mean() > 5


@pytest.mark.parametrize("header", ["id,V2,V3,V4,V5\n", ""])
def test_a_series_a_row_is_read_by_the_layout_of_a_step_a_row(tmp_path: Path, header: str) -> None:
    """Training on such a table reads it a step a row; what is forecast after has the form that the user has."""
    path = tmp_path / "wide.csv"
    path.write_text(header + "a,1,2,,4\nb,5,6,7,\n")
    layout = Layout(target=["value"], group="series", date="none")
    found = read_series(path, layout, ahead=True)
    assert [(series.name, series.target.tolist()) for series in found] == [("a", [1, 2, 3, 4]), ("b", [5, 6, 7])]
    frame = read_series({"id": ["a"], "V2": [1], "V3": [2], "V4": [None]}, layout, ahead=True)
    assert [series.target.tolist() for series in frame] == [[1, 2]]
    with pytest.raises(UserError, match="no column 'value'"):
        read_series({"day": ["2024-01-01", "2024-01-02"], "sales": [3, 4], "price": [5, 6]}, layout)
