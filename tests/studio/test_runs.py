"""Runs as the page lists them, while a training writes them."""

import json
from pathlib import Path
from typing import Any

from harken.studio.library import Library
from harken.studio.runs import curves, describe_run, documents, list_runs
from harken.training.folder import RunLock


def write_run(folder: Path, lines: list[dict[str, Any]], tail: str = "") -> Path:
    folder.mkdir(parents=True)
    (folder / "recipe.toml").write_text(
        'task = "translate"\n[model]\narchitecture = "recurrent"\ncell = "gru"\nattention = "none"\n'
        "[train]\nmax_steps = 40\n"
    )
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + tail)
    return folder


LINES = [
    {"kind": "train", "step": 10, "loss": 4.0, "seconds": 1.0, "tokens_per_second": 900.0},
    {"kind": "train", "step": 20, "loss": 3.0, "seconds": 2.0, "tokens_per_second": 1000.0},
    {"kind": "valid", "step": 20, "loss": 3.5, "bleu": 12.5, "best": True, "seconds": 2.5},
]


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    found = curves(write_run(tmp_path / "a", LINES, '{"kind": "train", "st'))
    assert found["lines"] == 3
    assert found["train"]["loss"] == [4.0, 3.0] and found["valid"]["bleu"] == [12.5]


def test_later_calls_give_new_lines_alone(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", LINES)
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "train", "step": 30, "loss": 2.0}) + "\n")
    found = curves(folder, after=3)
    assert found["train"] == {"loss": [2.0], "step": [30]} and found["valid"] == {} and found["lines"] == 4


def test_the_state_is_running_while_a_process_holds_the_folder(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "a", LINES)
    assert describe_run("a", folder)["state"] == "stopped"
    with RunLock(folder):
        assert describe_run("a", folder)["state"] == "running"
    (folder / "card.md").write_text("# done\n")
    found = describe_run("a", folder)
    assert found["state"] == "finished" and found["best"]["bleu"] == 12.5 and found["loss"] == 3.0
    assert found["network"] == "GRU, no attention" and found["step"] == 20 and found["max_steps"] == 40


def test_runs_without_metrics_and_damaged_recipes_are_listed(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "recipe.toml").write_text("task = \n")
    (found,) = list_runs(Library(root=tmp_path))
    assert found["name"] == "new" and found["loss"] is None and found["task"] == ""
    assert documents(tmp_path / "new") == {"recipe": "task = \n", "card": ""}
