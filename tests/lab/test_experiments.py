"""Every experiment runs, in a small size, to a table, a verdict, a figure and a JSON, under the name of its file."""

import json
import math
from pathlib import Path

import pytest

from harken.inspection.figure import Bars, Heat, Lines
from harken.lab import claims
from harken.lab.experiment import Settings
from harken.lab.registry import experiment_names, find_experiment
from harken.lab.report import run_experiment

NAMES = sorted(experiment_names())


def test_every_module_of_claims_is_listed() -> None:
    modules = {path.stem.replace("_", "-") for path in Path(claims.__file__).parent.glob("*.py")} - {"--init--"}
    assert modules == set(NAMES)


LONG = {"alignment", "quadratic", "bottleneck", "why-attention"}  # seconds each


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in NAMES]
)
def test_an_experiment_runs_quickly_to_its_end(name: str, tmp_path: Path) -> None:
    experiment = find_experiment(name)
    assert experiment.name == name
    told: list[float] = []
    report = run_experiment(experiment, Settings(quick=True), lambda done, say: told.append(done))
    assert report.cpu_seconds < 30
    assert told == sorted(told) and all(0 <= done <= 1 for done in told)

    found = report.findings
    assert found.rows and all(len(row) == len(found.columns) for row in found.rows)
    assert found.holds in (True, False, None)
    assert "\n" not in found.verdict and any(letter.isdigit() for letter in found.verdict)
    assert found.figure.title and found.figure.panels
    for panel in found.figure.panels:
        assert panel.x_label or panel.title
        if isinstance(panel, Lines):
            assert all(len(series.x) == len(series.y) for series in panel.series)
            assert any(series.points() for series in panel.series)
        elif isinstance(panel, Bars):
            assert all(len(group.values) == len(panel.names) for group in panel.groups)
        else:
            assert isinstance(panel, Heat)
            assert [len(row) for row in panel.values] == [len(panel.columns)] * len(panel.rows)

    written = report.write(tmp_path)
    assert [path.name for path in written] == [f"{name}.json", f"{name}.svg"]
    kept = json.loads(written[0].read_text(encoding="utf-8"))  # strict JSON: no NaN
    assert kept["verdict"] == found.verdict
    assert kept["measured"] and kept["settings"] == {"seed": 1, "quick": True, "files": [], "sentence": ""}
    assert not any(isinstance(cell, float) and math.isnan(cell) for row in kept["rows"] for cell in row)


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    experiment = find_experiment("vanishing")
    once, again, other = (
        experiment.run(Settings(seed=seed, quick=True), lambda done, say: None).measured for seed in (3, 3, 4)
    )
    assert once == again != other
