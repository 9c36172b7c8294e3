"""Series out of tables: columns, groups, dates, gaps, and a user's mistakes."""

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.series.dates import calendar_features, carry_on, read_dates
from harken.data.series.series import Layout, fill_forward, read_series
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
    ("missing", "wanted"),
    [("forward", [1.0, 1.0, 1.0, 4.0]), ("linear", [1.0, 1.0, 1.0, 4.0]), ("zero", [1.0, 0.0, 0.0, 4.0])],
)
def test_gaps_are_filled_as_asked(tmp_path: Path, missing: str, wanted: list[float]) -> None:
    path = write(tmp_path, "y\n1\nNA\n?\n4\n")
    assert read_series(path, Layout(missing=missing))[0].target.tolist() == wanted


gapped = st.lists(st.one_of(st.none(), st.floats(-9, 9)), min_size=1, max_size=30)


@given(st.floats(-9, 9), gapped, gapped, st.booleans())
def test_a_filled_gap_depends_on_earlier_rows_alone(
    first: float, past: list[float | None], later: list[float | None], linear: bool
) -> None:
    values = np.array([first, *past, *later], dtype=float)
    whole, alone = fill_forward(values, linear=linear), fill_forward(values[: 1 + len(past)], linear=linear)
    assert np.array_equal(whole[: len(alone)], alone)
    assert np.array_equal(whole[~np.isnan(values)], values[~np.isnan(values)]) and np.isfinite(whole).all()


def test_a_line_goes_on_within_the_range_of_the_numbers_before() -> None:
    gap = np.nan
    assert fill_forward(np.array([9.0, 1.0, 3.0, gap, gap, gap, gap, gap]), linear=True).tolist() == [
        9.0, 1.0, 3.0, 5.0, 7.0, 9.0, 9.0, 9.0
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "layout", "sentence"),
    [
        ("y\n1\n\n?\n", Layout(), r"series.csv, row 2: y is missing; fix it, or set data.missing"),
        ("y\n1\nten\n", Layout(), "row 2: y 'ten' is no number"),
        ("y\nNA\nNA\n", Layout(missing="zero"), "the column y has no number at all"),
        ("y\nNA\n2\n", Layout(missing="forward"), "row 1: y is missing and no number comes before it"),
        ("y\n", Layout(), "has no rows below its header"),
        ("day,y\n2024-01-02,1\n2024-01-01,2\n", Layout(), "row 2: '2024-01-01' does not come after the row before"),
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
    with pytest.raises(UserError, match="row 3: y is missing"):
        read_series(path, Layout(covariates=["sale"]))


def test_dates_go_on() -> None:
    hours = read_dates(["2016-07-01 22:00:00", "2016-07-01 23:00:00"], "x")
    assert carry_on(hours, 2) == [datetime(2016, 7, 2, 0), datetime(2016, 7, 2, 1)]
    quarters = read_dates(["2015-07", "2015-10", "2016-01"], "x")
    assert carry_on(quarters, 1) == [datetime(2016, 4, 1)]
    assert carry_on(quarters[:1], 3) == []


def test_calendar_features_come_round() -> None:
    days = read_dates(["2024-01-01", "2024-07-01", "2024-12-01", "2025-01-01"], "x")
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
