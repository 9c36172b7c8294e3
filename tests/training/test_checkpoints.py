"""Checkpoints: all that is put in comes out, a kill leaves the old one, and nothing in them can run."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import UserError
from harken.training.checkpoints import CHECKPOINT, Progress, load_checkpoint, save_checkpoint

finite = st.floats(allow_nan=False)


@given(st.integers(0, 2**53), finite, st.none() | finite, st.booleans())
def test_progress_comes_back_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, step: int, loss: float, best: float | None, finished: bool
) -> None:
    folder = tmp_path_factory.mktemp("checkpoint")
    progress = Progress(step=step, window_loss=loss, best=best, finished=finished)
    weights = {"model.w": torch.randn(3, 2), "optimizer.step.w": torch.tensor(4.0)}
    save_checkpoint(folder, weights, progress, {"seed": 1, "precision": "float32"})
    found = load_checkpoint(folder)
    assert found is not None
    tensors, restored, settings = found
    assert restored == progress
    assert settings == {"seed": 1, "precision": "float32"}
    assert tensors.keys() == weights.keys()
    assert all(torch.equal(tensors[name], weights[name]) for name in weights)


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    (tmp_path / f"{CHECKPOINT}.part").write_bytes(b"half of one")
    assert load_checkpoint(tmp_path) is None


def test_a_kill_before_the_renaming_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, {"w": torch.zeros(2)}, Progress(step=1), {})

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            save_checkpoint(tmp_path, {"w": torch.ones(2)}, Progress(step=2), {})
    found = load_checkpoint(tmp_path)
    assert found is not None and found[1].step == 1 and torch.equal(found[0]["w"], torch.zeros(2))
    save_checkpoint(tmp_path, {"w": torch.ones(2)}, Progress(step=2), {})
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_it_is_on_the_disk_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("replace"), replace(old, new)))
    save_checkpoint(tmp_path, {"w": torch.zeros(2)}, Progress(), {})
    assert done == ["fsync", "replace"]


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "foreign"])
def test_a_damaged_one_is_refused_in_a_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, {"w": torch.zeros(100)}, Progress(step=1), {})
    if damage == "foreign":
        from safetensors.torch import save_file

        save_file({"w": torch.zeros(2)}, path)
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-40], "text": b"weights " * 50}[damage])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors is not a checkpoint .* remove it") as caught:
        load_checkpoint(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_full_disk_leaves_the_old_one_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    save_checkpoint(tmp_path, {"w": torch.zeros(2)}, Progress(step=1), {})

    def full(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise safetensors.SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(
        UserError, match=r"cannot be written \(.*No space left.*\); free disk space and continue with --resume$"
    ):
        save_checkpoint(tmp_path, {"w": torch.ones(2)}, Progress(step=2), {})
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]
