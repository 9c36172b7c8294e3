"""A run that starts from another's checkpoint, and the schedule that is made for it."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harken.errors import UserError
from harken.recipe import load_recipe
from harken.run_folders.starting import require_same_trunk
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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"optimizer": "muon"}, "train.optimizer = muon, not adamw"),
        ({"vocabulary": "other words"}, "vocabulary.json of the run"),
        ({"vocabulary": None}, "vocabulary.json of the run"),
    ],
)
def test_a_branch_from_other_data_or_another_optimizer_is_refused(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    trunk, branch = tmp_path / "trunk", tmp_path / "branch"
    recipe = load_recipe("phrasebook-tag")
    for folder, vocabulary in ((trunk, changes.get("vocabulary", "words")), (branch, "words")):
        folder.mkdir()
        if vocabulary is not None:
            (folder / "vocabulary.json").write_text(vocabulary)
    train = recipe.train.model_copy(update={"optimizer": changes.get("optimizer", "adamw")})
    (trunk / "recipe.toml").write_text(recipe.model_copy(update={"train": train}).to_toml())
    job: Any = SimpleNamespace(artifact_names=lambda: frozenset({"vocabulary.json"}))
    if not said:
        require_same_trunk(recipe, job, branch, trunk)
        return
    with pytest.raises(UserError, match=said):
        require_same_trunk(recipe, job, branch, trunk)
