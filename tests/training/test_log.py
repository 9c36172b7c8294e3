"""metrics.jsonl: whole lines in the order of steps, also after a kill."""

import json
from pathlib import Path

import pytest

from harken.training.log import METRICS, MetricsLog, read_metrics


def test_lines_are_added_and_read(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    entries = [{"kind": "train", "step": 1, "loss": 0.1 + 0.2}, {"kind": "valid", "step": 2, "best": True}]
    for entry in entries:
        log.write(entry)
    assert read_metrics(tmp_path) == entries
    assert len((tmp_path / METRICS).read_text().splitlines()) == 2


def test_a_new_run_begins_a_new_file(tmp_path: Path) -> None:
    MetricsLog(tmp_path).write({"step": 1})
    MetricsLog(tmp_path)
    assert read_metrics(tmp_path) == []


def test_a_resumed_run_drops_what_lies_past_its_checkpoint(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path)
    for step in range(1, 6):
        log.write({"step": step})
    with open(tmp_path / METRICS, "a") as lines:
        lines.write('{"step": 6, "lo')  # the kill came here
    MetricsLog(tmp_path, resume_step=3).write({"step": 4, "again": True})
    assert read_metrics(tmp_path) == [{"step": 1}, {"step": 2}, {"step": 3}, {"step": 4, "again": True}]


def test_resuming_without_a_file(tmp_path: Path) -> None:
    MetricsLog(tmp_path, resume_step=3).write({"step": 4})
    assert read_metrics(tmp_path) == [{"step": 4}]


@pytest.mark.parametrize(
    "line",
    [
        '{"kind": "valid", "loss": 1.0}',
        '{"kind": "valid", "step": "2", "loss": 1.0}',
        '{"kind": "valid", "step": true, "loss": 1.0}',
        '{"kind": "valid", "step": 2, "loss": "low"}',
        '{"kind": "valid", "step": 2, "loss": null}',
        '{"kind": ["valid"], "step": 2, "loss": 1.0}',
        '["valid", 2]',
    ],
)
def test_lines_that_no_run_writes_are_left_out(tmp_path: Path, line: str) -> None:
    good = {"kind": "event", "step": 1, "event": "a spike"}
    (tmp_path / METRICS).write_text(json.dumps(good) + "\n" + line + "\n")
    assert read_metrics(tmp_path) == [good]
