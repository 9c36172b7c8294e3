"""Stopping and going on, inside one process: a run cut at any step ends as one that was not; Ctrl-C loses nothing.

The same with real kills is in `test_resume.py`.
"""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from harken.errors import Interrupted, UserError
from harken.training import checkpoints, loop
from harken.training.checkpoints import CheckpointWriter, load_checkpoint
from harken.training.folder import MODEL
from harken.training.log import read_metrics

CLOCKED = {
    *("seconds", "window_seconds", "validation_seconds", "start_seconds"),
    *("tokens_per_second", "all_tokens_per_second", "data_wait", "spent"),
}


def steps_of(trainer: Any) -> int:
    return trainer.run().step


def everything(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], list[dict[str, Any]], bytes]:
    """All that a run leaves, less what the clock says."""
    found = load_checkpoint(folder)
    assert found is not None
    progress = {key: value for key, value in vars(found[1]).items() if key not in CLOCKED}
    lines = [{key: value for key, value in line.items() if key not in CLOCKED} for line in read_metrics(folder)]
    return found[0], progress, lines, (folder / MODEL).read_bytes()


def assert_same(one: Path, other: Path) -> None:
    (tensors, *rest), (other_tensors, *other_rest) = everything(one), everything(other)
    assert rest == other_rest
    assert tensors.keys() == other_tensors.keys()
    for name, value in tensors.items():
        assert torch.equal(value, other_tensors[name]), name


SETTINGS: dict[str, dict[str, Any]] = {
    "steps": {"max_steps": 17},
    "epochs": {"max_epochs": 3, "schedule": "cosine"},
    "plateau": {"max_steps": 17, "schedule": "plateau", "plateau_patience": 0, "accumulate": 2, "average": 0.0},
    "every step": {"max_epochs": 2.5, "checkpoint_every": 1},
}


@pytest.mark.parametrize(("name", "in_background"), [*((name, False) for name in SETTINGS), ("every step", True)])
def test_a_run_cut_at_any_step_ends_as_one_that_was_not(
    trainer: Callable,
    table: Any,
    watcher: Any,
    cut: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    in_background: bool,
) -> None:
    """In the background: as on a GPU, where the next steps are computed while a checkpoint is written."""
    monkeypatch.setattr(loop, "CheckpointWriter", lambda *_, **options: CheckpointWriter(in_background))
    settings = SETTINGS[name]
    steps = steps_of(trainer(table(), "whole", **settings))
    power_cut, action = cut
    for step in range(1, steps + 1):
        folder = f"cut{step}"
        with pytest.raises(power_cut):
            trainer(table(), folder, watcher(step, action), **settings).run()
        display = watcher()
        trainer(table(), folder, display, **settings).run(resume=True)
        first = (step - 1) // settings.get("checkpoint_every", 3) * settings.get("checkpoint_every", 3) + 1
        assert display.steps[0][0] == first
        assert display.started[0][0] == "resuming"  # a checkpoint is written before the first step
        assert_same(tmp_path / "whole", tmp_path / folder)


def test_a_cut_in_the_last_validation(trainer: Callable, table: Any, cut: Any, tmp_path: Path) -> None:
    settings = {"max_epochs": 2, "checkpoint_every": 4, "validate_every": 5}  # 12 steps: saved at the last one
    trainer(table(), "whole", **settings).run()
    power_cut, action = cut
    broken = trainer(table(), "cut", **settings)
    validate = broken._validate
    broken._validate = lambda: action() if broken.progress.step == 12 else validate()
    with pytest.raises(power_cut):
        broken.run()
    assert trainer(table(), "cut", **settings).run(resume=True).step == 12
    assert_same(tmp_path / "whole", tmp_path / "cut")


def test_a_cut_while_the_checkpoint_is_written(
    trainer: Callable, table: Any, cut: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(table(), "whole", max_steps=17).run()
    power_cut, action = cut
    broken = trainer(table(), "cut", max_steps=17)
    save, replace = broken._save, os.replace

    def save_half() -> None:
        if broken.progress.step == 9:
            monkeypatch.setattr(os, "replace", lambda *_: action())
        save()

    broken._save = save_half
    with pytest.raises(power_cut):
        broken.run()
    monkeypatch.setattr(os, "replace", replace)
    trainer(table(), "cut", max_steps=17).run(resume=True)
    assert_same(tmp_path / "whole", tmp_path / "cut")
    assert sorted(path.name for path in (tmp_path / "cut").iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_saves_and_goes_on(
    trainer: Callable, table: Any, watcher: Any, tmp_path: Path, number: int, workers: int
) -> None:
    trainer(table(), "whole", max_steps=17, workers=workers).run()
    display = watcher(8, lambda: os.kill(os.getpid(), number))
    before = signal.getsignal(number)
    stopped = trainer(table(), "stopped", display, max_steps=17, workers=workers)
    with pytest.raises(Interrupted) as caught:
        stopped.run()
    assert caught.value.number == number
    assert stopped.progress.step == 8
    assert "stopping: saving a checkpoint first ..." in display.notes
    assert signal.getsignal(number) is before
    trainer(table(), "stopped", max_steps=17, workers=workers).run(resume=True)
    assert_same(tmp_path / "whole", tmp_path / "stopped")


def test_a_second_ctrl_c_stops_at_once(trainer: Callable, table: Any, watcher: Any, tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        trainer(table(), "stopped", watcher(8, twice), max_steps=17).run()
    assert caught.type is KeyboardInterrupt
    found = load_checkpoint(tmp_path / "stopped")
    assert found is not None and found[1].step == 6


def test_a_finished_run_stays_as_it_is(trainer: Callable, table: Any, watcher: Any, tmp_path: Path) -> None:
    trainer(table(), max_steps=7).run()
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    display = watcher()
    assert trainer(table(), display=display, max_steps=7).run(resume=True).step == 7
    assert display.steps == [] and display.started == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


@pytest.mark.parametrize(
    ("first", "then", "steps"), [({"max_steps": 10}, {"max_steps": 14}, 14), ({"max_epochs": 1}, {"max_epochs": 2}, 12)]
)
def test_a_larger_budget_goes_on(
    trainer: Callable, table: Any, tmp_path: Path, first: dict, then: dict, steps: int
) -> None:
    common = {"validate_every": 2}  # both ends fall on a validation, so nothing is scored twice
    trainer(table(), "whole", **then, **common).run()
    trainer(table(), "parts", **first, **common).run()
    assert trainer(table(), "parts", **then, **common).run(resume=True).step == steps
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_other_settings_are_refused(trainer: Callable, table: Any) -> None:
    trainer(table(), max_steps=4).run()
    with pytest.raises(UserError, match=r"trained with train\.seed = 1, not 2; resume with the old value"):
        trainer(table(), max_steps=8, seed=2).run(resume=True)


def test_resuming_where_nothing_was_saved_starts_anew(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), "whole", max_steps=7).run()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "metrics.jsonl").write_text(json.dumps({"kind": "train", "step": 2}) + "\n")
    trainer(table(), "new", max_steps=7).run(resume=True)
    assert_same(tmp_path / "whole", tmp_path / "new")


@pytest.mark.parametrize("stopped", [True, False])
def test_a_last_checkpoint_that_fails_in_the_background_is_told(
    stopped: bool, trainer: Callable, table: Any, watcher: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C and at the end."""
    last, save = 5 if stopped else 17, checkpoints.save_checkpoint

    def fails_at_last(*arguments: Any) -> None:
        if arguments[2].step == last:
            raise UserError("the disk is full")
        save(*arguments)

    monkeypatch.setattr(checkpoints, "save_checkpoint", fails_at_last)
    monkeypatch.setattr(loop, "CheckpointWriter", lambda *_, **options: CheckpointWriter(in_background=True))
    stop = watcher(5, (lambda: os.kill(os.getpid(), signal.SIGINT)) if stopped else None)
    with pytest.raises(UserError, match="the disk is full"):
        trainer(table(), "run", stop, max_steps=17).run()
