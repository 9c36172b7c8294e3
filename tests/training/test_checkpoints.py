"""Checkpoints: all that is put in comes out, a kill leaves the old one, and nothing in them can run."""

import os
import threading
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.errors import UserError
from harken.training.checkpoints import CheckpointWriter, Progress, load_checkpoint, save_checkpoint
from harken.training.folder import CHECKPOINT, PREVIOUS
from harken.training.weights import load_tensors, load_weights, save_tensors, state_of

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
    tensors, restored, settings, warning = found
    assert warning is None
    assert restored == progress
    assert settings == {"seed": 1, "precision": "float32"}
    assert tensors.keys() == weights.keys()
    assert all(torch.equal(tensors[name], weights[name]) for name in weights)


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    (tmp_path / f".{CHECKPOINT}.0123abcd.tmp").write_bytes(b"half of one")
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
    assert sorted(path.name for path in tmp_path.iterdir()) == [PREVIOUS, CHECKPOINT]


def test_a_kill_between_the_two_files_leaves_nothing_behind(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"weight": torch.ones(2)}, Progress(step=1), {})
    os.link(tmp_path / CHECKPOINT, tmp_path / PREVIOUS)  # killed before the new one was written
    save_checkpoint(tmp_path, {"weight": torch.zeros(2)}, Progress(step=2), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([CHECKPOINT, PREVIOUS])
    assert load_tensors(tmp_path / PREVIOUS)[0]["weight"].tolist() == [1, 1]


def test_it_is_on_the_disk_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda file: (done.append("fsync"), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda old, new: (done.append("replace"), replace(old, new)))
    save_checkpoint(tmp_path, {"w": torch.zeros(2)}, Progress(), {})
    assert done == ["fsync", "replace", "fsync"]  # the file, then the folder that names it


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "foreign"])
def test_a_damaged_one_is_refused_in_a_sentence(tmp_path: Path, damage: str) -> None:
    path = tmp_path / CHECKPOINT
    save_checkpoint(tmp_path, {"w": torch.zeros(100)}, Progress(step=1), {})
    if damage == "foreign":
        from safetensors.torch import save_file

        save_file({"w": torch.zeros(2)}, path)
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-40], "text": b"weights " * 50}[damage])
    with pytest.raises(
        UserError, match=r"checkpoint\.safetensors is (damaged|no checkpoint).* restart=True$"
    ) as caught:
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
        UserError, match=r"cannot be written \(.*No space left.*\); free some space and continue with resume=True$"
    ):
        save_checkpoint(tmp_path, {"w": torch.ones(2)}, Progress(step=2), {})
    assert load_tensors(tmp_path / CHECKPOINT)[0]["w"].tolist() == [0, 0]
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_checkpoint_in_the_background_is_that_of_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, written = threading.Event(), []

    def slow(*arguments: Any) -> None:
        assert go.wait(300)
        written.append(arguments[2].step)
        save_checkpoint(*arguments)

    monkeypatch.setattr("harken.training.checkpoints.save_checkpoint", slow)
    weights, progress = {"w": torch.zeros(3)}, Progress(step=1, dead={"w": 1})
    writer = CheckpointWriter(in_background=True)
    writer.write(tmp_path, weights, progress, {"seed": 1})
    weights["w"] += 1  # training goes on
    progress.step, progress.dead["w"] = 2, 2
    assert not written and load_checkpoint(tmp_path) is None
    go.set()
    writer.write(tmp_path, weights, progress, {"seed": 1})
    writer.wait()
    found, before = load_checkpoint(tmp_path), load_tensors(tmp_path / PREVIOUS)[0]
    assert found is not None and (found.progress.step, found.progress.dead, written) == (2, {"w": 2}, [1, 2])
    assert (found.tensors["w"].tolist(), before["w"].tolist()) == ([1, 1, 1], [0, 0, 0])
    writer.close()


def test_a_failure_in_the_background_is_raised_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    writer = CheckpointWriter(in_background=True)
    monkeypatch.setattr("harken.training.checkpoints.save_checkpoint", full)
    writer.write(tmp_path, {}, Progress(), {})
    with pytest.raises(UserError, match="the disk is full"):
        writer.write(tmp_path, {}, Progress(), {})
    for look in (writer.wait, writer.check):
        writer.write(tmp_path, {}, Progress(), {})
        assert writer.pending is not None
        wait([writer.pending])
        with pytest.raises(UserError, match="the disk is full"):
            look()
        look()
    writer.close()


def test_the_next_checkpoint_is_written_after_one_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any) -> None:
        raise UserError("the disk is full")

    writer = CheckpointWriter(in_background=True)
    with monkeypatch.context() as patch:
        patch.setattr("harken.training.checkpoints.save_checkpoint", full)
        writer.write(tmp_path, {}, Progress(step=1), {})
        assert writer.pending is not None
        wait([writer.pending])
    writer.write(tmp_path, {"w": torch.zeros(1)}, Progress(step=2), {})
    found = load_checkpoint(tmp_path)  # complete when `write` returns
    assert found is not None and found.progress.step == 2
    writer.close()


def test_a_checkpoint_that_is_being_written_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr("harken.training.checkpoints.save_checkpoint", lambda *_: go.wait(300))
    writer = CheckpointWriter(in_background=True)
    writer.write(tmp_path, {}, Progress(), {})
    writer.check()
    assert writer.pending is not None and not writer.pending.done()
    go.set()
    writer.close()


def flip_a_bit(path: Path, place: int = -3) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(bytes(content))


def test_a_flipped_bit_falls_back_to_the_previous_checkpoint(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, {"w": torch.zeros(50)}, Progress(step=1), {})
    save_checkpoint(tmp_path, {"w": torch.ones(50)}, Progress(step=2), {})
    flip_a_bit(tmp_path / CHECKPOINT)
    found = load_checkpoint(tmp_path)
    assert found is not None and found.progress.step == 1 and found.tensors["w"].sum() == 0
    assert found.warning is not None and "does not match its checksum" in found.warning
    flip_a_bit(tmp_path / PREVIOUS)
    with pytest.raises(UserError, match="checksum; train into a new folder, or start this run over with restart=True"):
        load_checkpoint(tmp_path)


def batch_normed() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def test_buffers_are_saved_and_loaded_with_the_weights(tmp_path: Path) -> None:
    model, other = batch_normed(), batch_normed()
    model(torch.randn(9, 3))
    save_tensors(tmp_path / "m.safetensors", state_of(model))
    load_weights(other, tmp_path / "m.safetensors")
    for name, value in model.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name
    assert "1.running_mean" in load_tensors(tmp_path / "m.safetensors")[0]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    model = batch_normed()
    tensors = {name: one.detach().clone() for name, one in state_of(model).items()}
    tensors["0.weight"][1, 2] = value
    save_tensors(tmp_path / "m.safetensors", tensors)
    before = [one.clone() for one in model.parameters()]
    with pytest.raises(UserError, match=r"NaN or infinite values in 0\.weight"):
        load_weights(model, tmp_path / "m.safetensors")
    assert all(torch.equal(one, other) for one, other in zip(before, model.parameters(), strict=True))


def test_a_changed_model_file_is_refused(tmp_path: Path) -> None:
    model = batch_normed()
    save_tensors(tmp_path / "m.safetensors", state_of(model))
    flip_a_bit(tmp_path / "m.safetensors")
    with pytest.raises(UserError, match="does not match its checksum; train the model again or copy it anew"):
        load_weights(model, tmp_path / "m.safetensors")
