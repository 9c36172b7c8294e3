"""The figures that issue 4 asks of handwriting; each trains a model for minutes."""

from pathlib import Path

import pytest

import harken
from harken.data.strokes.files import read_npz
from harken.tasks.handwriting.job import JOB

ONE_CORE = ["train.workers=1", "train.threads=1", "train.device=cpu"]


@pytest.mark.slow
def test_a_recogniser_reads_what_is_written(tmp_path: Path) -> None:
    penman = harken.train("penfont-handwriting", tmp_path / "pen", overrides=ONE_CORE, progress=False)
    scores = JOB.evaluate(penman, "test", [], lambda done: None)
    assert scores["real_legible"] >= 0.95  # or its word on the samples would mean little
    assert scores["legible"] >= 0.80
    assert scores.details["unfinished"] <= 4


@pytest.mark.slow
@pytest.mark.shared
def test_real_drawings_are_better_than_by_one_gaussian(shared_data: Path, tmp_path: Path) -> None:
    file = shared_data / "online-strokes" / "omniglot.strokes.npz"
    overrides = [f"data.file={file}", "train.max_steps=600", "train.max_minutes=none", *ONE_CORE]
    penman = harken.train("omniglot-handwriting", tmp_path / "free", overrides=overrides, progress=False)
    test = read_npz(file)["test"]
    points = sum(len(drawing) for drawing in test)
    # A single Gaussian of the data's own deviation has 1 + log 2 pi = 2.84 nats a point, before any pen is lifted.
    assert penman.nats(test).sum() / points < 0.8
