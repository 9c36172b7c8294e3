"""A run that starts from another's checkpoint, and the schedule that is made for it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harken.errors import UserError
from harken.training.checkpoints import load_checkpoint
from harken.training.log import read_metrics


def rates(folder: Path) -> dict[int, float]:
    return {entry["step"]: entry["learning_rate"] for entry in read_metrics(folder) if entry["kind"] == "train"}


def test_a_branch_equals_the_run_that_was_never_stopped(trainer: Callable, table: Any, tmp_path: Path) -> None:
    whole = trainer(table(), "whole", schedule="wsd", cooldown=0.5, max_steps=12, log_every=1)
    whole.run()
    trainer(table(), "trunk", schedule="constant", max_steps=6, log_every=1).run()
    options = {"schedule": "wsd", "cooldown": 0.5, "max_steps": 12, "log_every": 1}
    state = trainer(table(), "branch", branch_from=str(tmp_path / "trunk"), **options).run()
    assert state.step == 12 and state.finished
    assert rates(tmp_path / "branch") == pytest.approx({step: 0.05 * (12 - step) / 6 for step in range(7, 13)})
    wanted, found = (load_checkpoint(tmp_path / name) for name in ("whole", "branch"))
    assert wanted is not None and found is not None
    for name, value in wanted.tensors.items():
        assert torch.equal(found.tensors[name], value), name
    trunk = load_checkpoint(tmp_path / "trunk")
    assert trunk is not None and trunk.progress.step == 6  # it stays as it was


def test_a_branch_can_be_resumed(trainer: Callable, table: Any, tmp_path: Path) -> None:
    trainer(table(), "trunk", max_steps=4).run()
    trainer(table(), "branch", branch_from=str(tmp_path / "trunk"), max_steps=6).run()
    state = trainer(table(), "branch", branch_from=str(tmp_path / "trunk"), max_steps=9).run(resume=True)
    assert state.step == 9


@pytest.mark.parametrize(("folder", "said"), [("nowhere", "no checkpoint"), ("trunk", "all of this run's budget")])
def test_a_branch_without_a_checkpoint_or_budget_is_refused(
    trainer: Callable, table: Any, tmp_path: Path, folder: str, said: str
) -> None:
    trainer(table(), "trunk", max_steps=4).run()
    with pytest.raises(UserError, match=said):
        trainer(table(), "branch", branch_from=str(tmp_path / folder), max_steps=4).run()
