"""Recipes inferred from tables of series: dates, groups, the season that validation chooses."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.recipe import load_recipe
from harken.recipe.infer import infer, recipe_file
from harken.recipe.look import look

DAYS = [datetime(2020, 1, 1) + timedelta(days=day) for day in range(2000)]
HOURS = [datetime(2020, 1, 1) + timedelta(hours=hour) for hour in range(1500)]
MONTHS = [f"{1950 + month // 12}-{month % 12 + 1:02}" for month in range(200)]


def write(path: Path, **columns: Sequence[Any]) -> Path:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def wave(count: int, period: float, noise: float = 0.05) -> list[float]:
    random = np.random.default_rng(1)
    return np.round(
        20 + 5 * np.sin(2 * np.pi * np.arange(count) / period) + noise * random.normal(size=count), 4
    ).tolist()


@pytest.mark.parametrize(
    ("dates", "period", "season"),
    [
        (MONTHS, 12, 12),
        (DAYS, 7, 7),
        (DAYS, 365, 365),
        (HOURS, 24, 24),
        (HOURS, 168, 168),
        (MONTHS, 90, 1),
    ],
)
def test_the_season_is_the_one_that_predicts_the_validation_part(
    tmp_path: Path, dates: list[Any], period: float, season: int
) -> None:
    path = write(tmp_path / "a.csv", when=dates, load=range(len(dates)), price=wave(len(dates), period))
    inferred = infer(path)
    assert inferred.task == "forecast" and inferred.data["target_column"] == "price"
    assert inferred.data["season"] == season
    assert "by the error of seasonal naive on validation: 1 " in inferred.reason
    assert infer(path, target="load").data["target_column"] == "load"
    if 1 < season < 365:
        assert inferred.data["window"] > season


def test_noisy_temperatures_of_years_of_days_have_no_week(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", Date=DAYS, Temp=wave(2000, 365.25, noise=2.0))
    data = infer(path).data
    assert data["season"] != 7 and "day" in data["calendar"]


def test_years_have_no_season(tmp_path: Path) -> None:
    data = infer(write(tmp_path / "a.csv", Year=range(1880, 2010), Anomaly=wave(130, 7))).data
    assert data["season"] == 1 and data["target_column"] == "Anomaly" and data["horizon"] == 6


def test_gaps_are_in_the_reason(tmp_path: Path) -> None:
    days = [f"{day:%m/%d/%Y}" for day in DAYS[:300] if day.day != 13]
    reason = infer(write(tmp_path / "a.csv", Date=days, Sold=wave(len(days), 7))).reason
    assert "daily from 2020-01-01 to 2020-10-26 (dates read as month first); 10 missing dates filled (linear)" in reason


def test_columns_that_tell_series_apart(tmp_path: Path) -> None:
    days = [day for day in DAYS[:120] for _ in range(4)]
    shops, items = [1, 1, 2, 2] * 120, ["a", "b"] * 240
    data = infer(write(tmp_path / "a.csv", shop=shops, item=items, day=days, sold=wave(480, 28))).data
    assert data["group"] == ["shop", "item"] and data["date_column"] == "day" and data["target_column"] == "sold"
    assert data["season"] == 7
    wide = infer(write(tmp_path / "b.csv", day=DAYS[:100], MT_001=wave(100, 7), MT_002=wave(100, 7))).data
    assert wide["target_column"] == ["MT_001", "MT_002"]


def test_dates_that_training_refuses_are_inferred_without_a_season(tmp_path: Path) -> None:
    days = [DAYS[number**2 // 2] for number in range(2, 62)]
    path = write(tmp_path / "a.csv", day=days, y=wave(60, 7))
    assert infer(path).data["season"] == 1
    recipe, _, _ = recipe_file(path, tmp_path / "a.toml", ["data.date_column=none"])
    assert load_recipe(recipe).data.date_column == "none"


@pytest.mark.parametrize(("lowest", "transform"), [(0.5, None), (0.0, "none")])
def test_a_series_with_values_of_0_has_no_logarithm(tmp_path: Path, lowest: float, transform: str | None) -> None:
    """Also where they are in the held-out part alone, of which the run would learn too late."""
    values = [*wave(130, 7)[:-1], lowest]
    assert infer(write(tmp_path / "a.csv", day=DAYS[:130], y=values)).data.get("transform") == transform
    rows = [[f"T{number}", *wave(20, 4)[:-1], lowest] for number in range(12)]
    path = tmp_path / "rows.csv"
    path.write_text(
        "".join(",".join(map(str, row)) + "\n" for row in [["V1", *(f"V{n}" for n in range(2, 22))], *rows])
    )
    assert infer(path).data.get("transform") == transform


def test_a_look_at_rows_of_series_shows_their_lengths_and_no_columns(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    rows = [["V1", *(f"V{n}" for n in range(2, 32))]]
    rows += [[f"T{number}", *range(1, 20 + number), *[""] * (11 - number)] for number in range(12)]
    path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    report = look(path)
    assert (report.task, report.columns) == ("forecast", [])
    assert report.more == {"series": "12; steps: median 25, 95% 29, most 30"}
