"""Every experiment runs, in a small size, to a table, a verdict, a figure and a JSON, under the name of its file."""

import json
import math
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.inspection.figure import Bars, Figure, Heat, Lines
from harken.lab import claims
from harken.lab.experiment import Experiment, Findings, Progress, Settings, silent
from harken.lab.registry import experiment_names, find_experiment
from harken.lab.report import run_experiment

NAMES = sorted(experiment_names())
ROOT = Path(__file__).parents[2]


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
    assert kept["measured"] and kept["settings"] == {"seed": 1, "quick": True, "files": [], "sentence": "", "sizes": {}}
    assert not any(isinstance(cell, float) and math.isnan(cell) for row in kept["rows"] for cell in row)


def test_every_part_of_a_claim_says_what_could_refute_it() -> None:
    for name in NAMES:
        parts = find_experiment(name).parts
        assert parts and {part.kind for part in parts} <= {"theorem", "arithmetic", "empirical"}, name
        pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/benchmarks").glob("lab*.md")]
        (block,) = [page.split(f"<!-- {name} -->")[1] for page in pages if f"<!-- {name} -->" in page]
        assert all(f"- {part.kind}: {part.statement}\n" in block for part in parts), name


def test_sizes_are_set_by_name() -> None:
    experiment = find_experiment("vanishing")
    report = run_experiment(experiment, Settings(quick=True, sizes={"hidden": 5, "seeds": 2}), silent)
    assert "5 units" in report.findings.figure.note and "2 seeds" in report.findings.figure.note
    series = report.findings.figure.panels[1].series[0]
    assert any(low < high for low, high in zip(series.low, series.high, strict=True))  # the band of two seeds
    with pytest.raises(UserError, match=r"no size 'hiden'.*hidden \(128\)"):
        run_experiment(experiment, Settings(quick=True, sizes={"hiden": 5}), silent)
    with pytest.raises(UserError, match="seeds = 0, but a size is at least 1"):
        run_experiment(experiment, Settings(quick=True, sizes={"seeds": 0}), silent)


def test_stability_counts_the_verdicts_of_runs_that_share_no_seed() -> None:
    def run(settings: Settings, progress: Progress) -> Findings:
        progress(1.0, "done")
        return Findings(["seed"], [[settings.seed]], settings.seed < 200_000, f"seed {settings.seed}", Figure("", []))

    told: list[float] = []
    experiment = Experiment("try", "statement", "shows", run)
    report = run_experiment(experiment, Settings(seed=7), lambda done, say: told.append(done), stability=4)
    assert report.findings.rows == [[7]] and told == [0.25, 0.5, 0.75, 1.0]
    assert report.stability == "Over 4 runs: holds 2, does not hold 2."
    assert report.to_dict()["answers"] == ["holds", "holds", "does not hold", "does not hold"]


@pytest.mark.slow
def test_the_same_seed_finds_the_same() -> None:
    experiment = find_experiment("vanishing")
    once, again, other = (
        experiment.run(Settings(seed=seed, quick=True), lambda done, say: None).measured for seed in (3, 3, 4)
    )
    assert once == again != other
