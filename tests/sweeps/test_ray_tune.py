"""Sweeps by Ray Tune on a cluster of this machine, with the results of one machine; and what is said without Ray."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app

from .test_sweep import CELLS, RECIPE, SMALL, run, weights

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'harken[ray]'")


def test_without_ray_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = CliRunner().invoke(app, ["sweep", RECIPE, "--out", str(tmp_path / "out"), "--engine", "ray"])
    assert done.exit_code == 2 and 'pip install "harken[ray]"' in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of the cluster find this copy of harken, and compile nothing."""
    monkeypatch.setenv("PYTHONPATH", ":".join([str(Path(harken.__file__).parents[1]), *filter(None, sys.path)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@needs_ray
@pytest.mark.slow
def test_the_trials_of_a_cluster_are_those_of_one_machine(tmp_path: Path, workers: None) -> None:
    lines: list[str] = []
    here = run(tmp_path / "here", grid=CELLS, seeds=2, test=False)
    there = run(tmp_path / "there", grid=CELLS, seeds=2, test=False, engine="ray", jobs=2, report=lines.append)
    assert str(here).split()[:12] == str(there).split()[:12] and len(lines) == 4
    for first, second in zip(here.trials, there.trials, strict=True):
        assert weights(first.folder) == weights(second.folder)
    again = run(tmp_path / "there", grid=CELLS, seeds=2, test=False, engine="ray", report=lines.append)
    assert len(lines) == 4 and again.best == there.best
    assert not (tmp_path / "there" / ".ray").exists()


@needs_ray
@pytest.mark.slow
def test_asha_stops_settings_and_errors_are_recorded(tmp_path: Path, workers: None) -> None:
    rates = {"train.learning_rate": [0.003, 0.0003, 0.00003]}
    halved = run(tmp_path / "halved", grid=rates, seeds=1, halving=True, engine="ray", test=False)
    shares = [row.share for row in halved.summaries()]
    assert shares[0] == 1.0 and min(shares) < 1.0
    missing = {"data.train": ["nothing.conllu"], "model.cell": ["lstm"]}
    options: dict[str, Any] = {"overrides": [*SMALL[1:], "data.corpus=none"], "progress": False, "engine": "ray"}
    with pytest.raises(harken.UserError, match=r"no trial of .* has a score: .*nothing\.conllu"):
        harken.sweep(RECIPE, tmp_path / "failed", grid=missing, seeds=1, **options)
