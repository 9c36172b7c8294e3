"""What question answering reaches on bAbI, as the issue asks: 1,000 training questions a task, one run each."""

from pathlib import Path

import pytest

import harken
from harken.tasks.answer.job import JOB

ARCHIVE = "babi/tasks_1-20_v1-2.tar.xz"


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("task", [1, 4, 6, 12, 15])
def test_a_task_is_solved(shared_data: Path, tmp_path: Path, task: int) -> None:
    archive = shared_data / ARCHIVE
    if not archive.is_file():
        pytest.skip("babi is not among the data sets")
    overrides = [f"data.dir={archive}", f"data.tasks=[{task}]", "train.workers=1", "train.precision=float32"]
    model = harken.train("babi-answer", tmp_path / "model", overrides=overrides, progress=False)
    assert JOB.evaluate(model, "test", [], lambda done: None)["accuracy"] >= 0.95
