"""A translation task that packs its pairs: every pair once, and the loss of the padded batches."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harken.models.transformer import packed
from harken.plan import resolve
from harken.recipe import load_recipe
from harken.search import Hypothesis, graphs
from harken.tasks.translate.job import JOB
from harken.tasks.translate.task import PackedBatch, TranslationBatch, TranslationTask

SETTINGS = [
    *("data.size=150", "tokenizer.kind=word", "model.layers=1", "model.width=16", "model.heads=2"),
    *("model.feedforward=32", "train.batch_tokens=128", "train.max_steps=4", "train.device=cpu"),
    *("train.precision=float32", "train.label_smoothing=0.1", "train.z_loss=0.001", "model.dropout=0.0"),
]


def task_with(folder: Path, *changes: str) -> Any:
    torch.manual_seed(0)
    recipe = resolve(load_recipe("phrasebook-transformer", [*SETTINGS, *changes]))[0]
    return JOB.prepare(recipe, folder, resuming=False).task


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task believes that it trains on a GPU with kernels; the reference computes."""
    monkeypatch.setattr(packed, "why_no_kernels", lambda model, device: None)


@pytest.mark.parametrize("architecture", ["transformer", "decoder-only"])
def test_packed_epochs_have_every_pair_once_and_the_loss_of_padded_ones(
    architecture: str, tmp_path: Path, on_a_gpu: None
) -> None:
    task = task_with(tmp_path, f"model.architecture={architecture}")
    padded = sum(float(task.loss(task.model, task.collate(indices))[0].detach()) for indices in task.epoch(0))
    assert not task.packs
    task.settings = task.settings.model_copy(update={"device": "cuda"})
    assert task.packs
    epoch = task.epoch(0)
    assert sorted(np.concatenate(epoch).tolist()) == list(range(len(task.train)))
    batches = [task.collate(indices) for indices in epoch]
    assert all(isinstance(batch, PackedBatch) for batch in batches)
    losses = [task.loss(task.model, batch) for batch in batches]
    assert sum(count for _, count in losses) == task.size(np.arange(len(task.train)))
    assert sum(float(loss.detach()) for loss, _ in losses) == pytest.approx(padded, rel=1e-5)
    full = [batch.pairs.source.shape[0] for batch in batches]
    assert max(full) <= task.window().sources and max(full.count(size) for size in full) >= len(full) // 2


def test_a_pair_longer_than_a_window_is_padded_and_so_is_validation(tmp_path: Path, on_a_gpu: None) -> None:
    task = task_with(tmp_path, "train.batch_tokens=16")
    task.settings = task.settings.model_copy(update={"device": "cuda"})
    long = int(np.argmax(task.train.source.lengths))
    task.windows[16] = task.window()._replace(sources=int(task.train.source.lengths[long]) - 1)
    padded = task.collate(np.array([long]))
    assert isinstance(padded, TranslationBatch)
    assert not task.is_static(padded)  # or it would be captured, and the graph replayed for other long pairs
    assert task.is_static(task.collate(np.array([0])))
    assert isinstance(task.collate(np.array([0]), valid=True), TranslationBatch)


@pytest.mark.parametrize("change", ["model.positions=alibi", "model.attention_dropout=0.1", "model.experts=2"])
def test_networks_that_cannot_be_packed_keep_padded_batches(tmp_path: Path, on_a_gpu: None, change: str) -> None:
    task = task_with(tmp_path, change)
    task.settings = task.settings.model_copy(update={"device": "cuda"})
    assert not task.packs


@pytest.mark.parametrize("change", ["model.cell=gru", "model.layers=2", "model.attention=none"])
def test_rounded_batches_of_a_recurrent_network_have_the_loss_and_gradients_of_exact_ones(
    tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe("phrasebook-attention", ["data.size=200", "model.embedding=8", "model.width=12", change])
    task = JOB.prepare(resolve(recipe)[0], tmp_path, resuming=False).task
    model = task.model.eval()  # without dropout, whose masks depend on the sizes
    indices = np.arange(21)
    exact, parameters = task.collate(indices), list(model.parameters())
    assert not task.is_static(exact) and task.static_shapes == 0
    monkeypatch.setattr(TranslationTask, "rounds", True)
    assert not task.is_static(task.collate(indices))  # not in a strategy without graphs
    rounded = task.static_collate(indices)
    assert task.is_static(rounded) and task.static_shapes > 1
    assert rounded.pairs.source.shape[0] == 32 and rounded.pairs.target_input.shape[1] % 4 == 0
    assert not task.is_static(task.collate(indices, valid=True))
    wanted, _ = task.loss(model, exact)
    found = task.static_loss(model, rounded)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
    grads = (torch.autograd.grad(loss, parameters, allow_unused=True) for loss in (found, wanted))
    for one, other in zip(*grads, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_the_work_of_a_batch_counts_both_sides(tmp_path: Path) -> None:
    task = task_with(tmp_path)
    indices = np.arange(10)
    tokens = int(task.train.source.lengths[indices].sum() + task.train.target.lengths[indices].sum())
    work = task.work(indices)
    assert work.tokens == tokens
    width, inner, words = 16, 32, task.target.size
    block = 4 * width**2 + 2 * width * inner
    source, target = int(task.train.source.lengths[indices].sum()), task.size(indices)
    crossing = 2 * width**2  # queries and output; keys and values are of the source
    expected = 6 * (source * (block + crossing) + target * (block + crossing + words * width))
    assert work.flops == expected


def test_what_was_captured_for_decoding_is_released_after_a_validation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training gets the memory of captured searches back."""
    task = task_with(tmp_path)
    task.model.eval()

    def search(model: Any, source: Any, *_: Any) -> list[Hypothesis]:
        graphs._SEARCHES.of(model)
        return [Hypothesis(tokens=[], score=0.0, normalised=0.0, finished=True) for _ in source]

    monkeypatch.setattr(task, "_search", search)
    with torch.no_grad():
        task.validate(0, 1)
        assert task.model not in graphs._SEARCHES._entries
        graphs._SEARCHES.of(task.model)
        monkeypatch.setattr(task, "_search", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            task.validate(0, 1)
    assert task.model not in graphs._SEARCHES._entries
