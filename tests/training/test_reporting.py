"""Lines of metrics.jsonl, speed without the compilation of kernels, and event files for TensorBoard."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import harken
from harken.training.checkpoints import Progress
from harken.training.display import NullDisplay
from harken.training.log import MetricsLog, read_metrics
from harken.training.reporting import TIMED, Reporter

FEW = [
    *("train.max_steps=4", "train.max_minutes=none", "train.validate_every=4", "train.log_every=2", "data.size=60"),
    *("train.batch_tokens=128", "train.precision=float32", "train.device=cpu", "train.workers=1"),
    *("model.width=8", "model.layers=1", "model.embedding=8", "data.chunk=4", "train.tensorboard=true"),
]


class Notes(NullDisplay):
    """A display that keeps what it is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def log(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize("compiling", [0.0, 4.0])
def test_compilation_is_reported_apart_from_the_speed(compiling: float, tmp_path: Path) -> None:
    notes, entries = Notes(), list[dict[str, Any]]()
    report = Reporter(Progress(), notes, [entries.append], MetricsLog(tmp_path), None)
    for line in range(2):
        for update in range(TIMED):
            report.add_time(0.5 + compiling * (line == update == 0))
            report.progress.window_tokens += 100
        report.record_training(1e-3, 0.0)
    assert [entry["tokens_per_second"] for entry in entries] == pytest.approx([200.0, 200.0])
    assert [entry.get("start_seconds") for entry in entries] == [compiling or None, None]
    assert notes.texts == ["the first updates took 4.0 s longer: kernels were compiled or loaded"] * bool(compiling)


def test_updates_that_were_all_skipped_have_no_loss(tmp_path: Path) -> None:
    state = Progress(step=1, window_loss=6.0, window_tokens=3, window_seconds=1.0)
    report = Reporter(state, NullDisplay(), [], MetricsLog(tmp_path), None)
    report.record_training(rate=0.1, data_wait=0.0)
    state.step, state.window_seconds = 2, 1.0
    report.record_training(rate=0.1, data_wait=0.0)
    assert [entry.get("loss") for entry in read_metrics(tmp_path)] == [2.0, None]


def test_each_entry_is_written(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    harken.train("phrasebook-language", tmp_path / "run", overrides=FEW, progress=False)
    found = loader.EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    entries = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [(entry["step"], entry["loss"]) for entry in entries if entry["kind"] == "train"]
    assert [(event.step, event.value) for event in found.Scalars("train/loss")] == [
        (step, pytest.approx(loss)) for step, loss in losses
    ]
    assert {"train/data_wait", "train/tokens_per_second", "valid/loss"} <= set(found.Tags()["scalars"])


def test_without_the_package_the_run_goes_on_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    harken.train("phrasebook-language", tmp_path / "run", overrides=FEW)
    assert 'pip install "harken[tensorboard]"' in capsys.readouterr().out
    assert (tmp_path / "run" / "card.md").is_file() and not (tmp_path / "run" / "tensorboard").exists()
