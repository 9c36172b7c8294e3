"""The table of the protocols: means over seeds, paired differences, restarts chosen by validation loss."""

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def protocols(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import protocols

    return protocols


def line(row: str, seed: int, test: float, loss: float, **more: Any) -> dict[str, Any]:
    figures = {"validation": {"accuracy": 0.8, "loss": loss}, "test": {"accuracy": test}, "training_seconds": 1.0}
    return {"row": row, "overrides": [], "seed": seed, **figures, **more}


def test_a_difference_is_paired_over_examples(protocols: Any) -> None:
    runs = [line("trec", seed, 0.75, 1.0, correct=hits) for seed, hits in ((1, "1101" * 50), (2, "1101" * 50))]
    gain, low, high = protocols.difference(runs, {"correct": "1101" * 50})
    assert (gain, low, high) == (0, 0, 0)  # the same answers: nothing is uncertain
    gain, low, high = protocols.difference(runs, {"correct": "1001" * 50})
    assert gain == 25 and 15 < low < 25 < high < 35


def test_the_table_has_the_mean_over_seeds(protocols: Any) -> None:
    lines = [line("trec", seed, test, 1.0, correct="10") for seed, test in ((1, 0.7), (2, 0.9))]
    lines.append({"row": "trec", "baseline": {"test": 0.5, "correct": "10"}})
    assert (
        "| trec | 2 | 80.00 ± 0.00 | 1.0000 | 80.00 ± 14.14 | 70.00; 90.00 | 50.00 | +0.00 (+0.00 to +0.00) | 1 |"
        in (protocols.summary(lines))
    )


def test_the_restart_with_the_lowest_validation_loss_counts(protocols: Any) -> None:
    lines = [line("babi-3", 1, 0.95, 0.5), line("babi-3", 2, 0.6, 0.1), line("babi-1", 1, 1.0, 0.2)]
    assert "bAbI, 2 tasks: mean error 20.00%, 1 tasks with at most 5%." in protocols.summary(lines)


def test_processes_are_ended_when_the_time_is_up(
    protocols: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import argparse

    monkeypatch.setattr(protocols, "__file__", str(tmp_path / "sleep.py"))
    (tmp_path / "sleep.py").write_text("import time\ntime.sleep(60)\n")
    options = argparse.Namespace(gpu=0, cpu=1, minutes=0.01, data=tmp_path, out=tmp_path)
    messages: list[str] = []
    monkeypatch.setattr("builtins.print", lambda text, **_: messages.append(text))
    protocols.run_all([protocols.parse("trec", 1), protocols.parse("trec", 2)], options)
    assert messages == ["trec, seed 1: not finished in time", "trec, seed 2: not started in time"]
