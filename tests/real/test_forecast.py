"""Forecasting real series: better than seasonal naive and than exponential smoothing (issue 4)."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "forecasts.py"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", ["airline-passengers", "monthly-car-sales", "monthly-sunspots"])
def test_better_than_smoothing(name: str, shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("statsmodels")
    folder = shared_data / "time-series"
    if not folder.is_dir():
        pytest.skip("the data set time-series is not here")
    row = runpy.run_path(str(SCRIPT))["measure"](name, folder, tmp_path, [])
    assert row["MASE"] < row["MASE seasonal naive"]
    assert row["MASE"] < row["MASE exponential smoothing"]
