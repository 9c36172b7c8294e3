"""Which runs are found, and when a model is loaded again."""

import os
from pathlib import Path
from typing import Any

import pytest

from harken.errors import UserError
from harken.run_folders.reading import folders_of_runs
from harken.studio.library import Library


def test_finds_every_run_below_the_root(runs: Path, library: Any) -> None:
    assert list(library.folders()) == ["attention", "opinions", "transformer"]
    found = {one["name"]: one for one in library.models()}
    assert found["attention"]["recurrent"] and not found["transformer"]["recurrent"]
    assert found["opinions"]["task"] == "classify"
    assert found["attention"]["network"] == "LSTM, additive attention, width 8"


def test_a_run_inside_a_run_is_no_run_of_its_own(tmp_path: Path) -> None:
    for name in ("a", "a/checkpoints", "deep/b", ".hidden"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "recipe.toml").write_text('task = "translate"\n')
    assert [path.relative_to(tmp_path).as_posix() for path in folders_of_runs(tmp_path)] == ["a", "deep/b"]


def test_a_root_that_is_a_run_is_named_after_its_folder(runs: Path) -> None:
    assert list(Library(root=runs / "attention").folders()) == ["attention"]


def test_loads_once_and_again_where_the_weights_have_changed(runs: Path) -> None:
    library = Library(root=runs, device="cpu")
    first = library.open("attention")
    assert library.open("attention") is first
    weights = runs / "attention" / "model.safetensors"
    stamp = weights.stat().st_mtime
    os.utime(weights, (stamp + 10, stamp + 10))
    assert library.open("attention") is not first


def test_refuses_unknown_runs_and_other_tasks(library: Any) -> None:
    with pytest.raises(UserError, match="there is no run 'nothing'; known are attention, opinions, transformer"):
        library.open("nothing")
    with pytest.raises(UserError, match="opinions was trained for the task 'classify'"):
        library.open("opinions", "translate")
