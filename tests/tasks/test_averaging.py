"""The mean of models: values, what is copied, and what is refused."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.errors import UserError
from harken.tasks.averaging import average_models
from harken.training.weights import load_tensors, save_tensors

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks" / "translate"))
from test_translator import ENGLISH, write_model


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """A model, and the same after some more updates, as it were."""
    first, second = write_model(tmp_path / "first", "attention"), tmp_path / "second"
    shutil.copytree(first, second)
    change(second, lambda one: one + 0.1)
    return first, second


def change(folder: Path, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensors, _ = load_tensors(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", {name: function(one) for name, one in tensors.items()})


def test_weights_are_averaged_and_the_rest_is_copied(pair: tuple[Path, Path], tmp_path: Path) -> None:
    assert average_models(pair, tmp_path / "mean") > 0.9
    average_models(pair, tmp_path / "weighted", [3, 1])
    first = load_tensors(pair[0] / "model.safetensors")[0]
    for name, share in (("mean", 0.5), ("weighted", 0.25)):
        found = load_tensors(tmp_path / name / "model.safetensors")[0]
        assert found.keys() == first.keys()
        for key, one in found.items():
            torch.testing.assert_close(one, first[key] + 0.1 * share)
    model = harken.load(tmp_path / "mean")
    assert isinstance(model.translate(ENGLISH[0], beam=1).text, str)
    assert "| second | 1 |" in (tmp_path / "weighted" / "card.md").read_text()
    assert average_models([pair[0], pair[0]], tmp_path / "same") == pytest.approx(1, abs=1e-5)
    same = load_tensors(tmp_path / "same" / "model.safetensors")[0]
    assert all(torch.equal(one, first[key]) for key, one in same.items())


def test_what_does_not_fit_is_refused(pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "mean"
    other = write_model(tmp_path / "other", "rnn")
    cases: list[tuple[list[Path], Any, str]] = [
        ([pair[0]], None, "at least two"),
        (list(pair), [1.0], "one number"),
        (list(pair), [0.0, 0.0], "one number"),
        ([pair[0], other], None, r"another \[model\] table"),
        ([pair[0], tmp_path], None, "no finished model folder"),
    ]
    for folders, weights, said in cases:
        with pytest.raises(UserError, match=said):
            average_models(folders, out, weights)
    vocabulary = pair[1] / "source.json"
    vocabulary.write_text(vocabulary.read_text() + " ")
    with pytest.raises(UserError, match=r"source\.json differs"):
        average_models(pair, out)
    assert not out.exists()


def test_models_that_were_trained_apart_are_warned_of(pair: tuple[Path, Path], tmp_path: Path) -> None:
    change(pair[1], torch.randn_like)
    done = CliRunner().invoke(app, ["average", *map(str, pair), "--out", str(tmp_path / "mean")])
    assert done.exit_code == 0 and "trained apart" in done.stderr
    again = CliRunner().invoke(app, ["average", *map(str, pair), "--out", str(tmp_path / "mean")])
    assert again.exit_code == 2 and "is not empty" in again.stderr
