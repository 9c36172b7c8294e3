"""The task: states go on from chunk to chunk, each worker keeps its own, and a killed run ends as one that was not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from harken.models.build import build_language
from harken.recipe import load_recipe
from harken.tasks.language.scoring import log_probabilities
from harken.tasks.language.task import Chunks, LanguageTask, stream_of
from harken.training.task import batch_loss

TINY = ["model.embedding=8", "model.width=12", "data.chunk=5", "train.batch_tokens=20", "model.dropout=0.0"]
TRANSFORMER = ["model.architecture=transformer", "model.width=16", "model.heads=2", "model.feedforward=16"]


def make_task(*changes: str, tokens: int = 203) -> LanguageTask:
    recipe = load_recipe("phrasebook-language", [*TINY, *changes])
    torch.manual_seed(2)
    ids = np.random.default_rng(5).integers(3, 20, tokens)
    return LanguageTask(recipe, build_language(recipe.model, 20), ids, ids[:80])


def test_chunk_after_chunk_gives_the_loss_of_the_whole_stream() -> None:
    task = make_task()
    batches = task.epoch(0)
    found = sum(float(batch_loss(task, batch)) for batch in batches)
    first, each = batches[0], sum(task.size(batch) for batch in batches) // task.streams
    starts = Chunks.read(first).starts
    rows = torch.from_numpy(task.ids[starts[:, None] + np.arange(each + 1)].astype(np.int64))
    whole = float(task.model.loss(rows[:, :-1], rows[:, 1:])[0])
    assert found == pytest.approx(whole, rel=1e-5)


def test_a_new_pass_begins_from_nothing_and_no_gradient_goes_back_beyond_the_chunk() -> None:
    task = make_task()
    batches = task.epoch(0)
    once = float(batch_loss(task, batches[0]))
    batch_loss(task, batches[1])
    assert float(batch_loss(task, batches[0])) == pytest.approx(once)
    assert not any(value.requires_grad for value in task.carried.values())
    assert all(value.abs().sum() > 0 for value in task.carried.values())


def test_without_carrying_a_chunk_knows_nothing_of_the_last() -> None:
    for changes in (["data.carry=false"], TRANSFORMER):
        task = make_task(*changes) if changes is not TRANSFORMER else transformer_task()
        assert task.carried == {}
        batches = task.epoch(0)
        once = float(batch_loss(task, batches[1]))
        batch_loss(task, batches[0])
        assert float(batch_loss(task, batches[1])) == pytest.approx(once)


def transformer_task() -> LanguageTask:
    recipe = load_recipe(
        "shakespeare-characters-gpu",
        [
            "data.train=x",
            "model={architecture='transformer', layers=2, width=16, heads=2, feedforward=16, dropout=0.0}",
            "data.chunk=6",
            "train.batch_tokens=24",
        ],
    )
    torch.manual_seed(2)
    ids = np.random.default_rng(5).integers(3, 20, 203)
    return LanguageTask(recipe, build_language(recipe.model, 20), ids, ids[:80])


@pytest.mark.parametrize("parts", [1, 2, 3])
def test_a_stream_always_goes_to_the_same_worker(parts: int) -> None:
    task, owners = make_task(), {}
    for batch in [*task.epoch(0), *task.epoch(1)]:
        shares = task.share(batch, parts)
        assert sorted(np.concatenate(shares)) == sorted(batch)
        for worker, share in enumerate(shares):
            for stream in stream_of(share):
                assert owners.setdefault(int(stream), worker) == worker


def test_shares_carry_what_the_whole_batch_carries() -> None:
    whole, shared = make_task(), make_task()
    for batch in whole.epoch(0)[:4]:
        total = float(batch_loss(whole, batch))
        assert sum(float(batch_loss(shared, part)) for part in shared.share(batch, 2)) == pytest.approx(total, rel=1e-5)
    for name, value in whole.carried.items():
        assert torch.allclose(value, shared.carried[name], atol=1e-6)


def test_a_state_that_is_no_number_begins_anew() -> None:
    task = make_task()
    batches = task.epoch(0)
    with torch.no_grad():
        task.model.layers[0].cells[0].bias_ih.fill_(torch.nan)
    batch_loss(task, batches[0])
    assert all(torch.equal(value, torch.zeros_like(value)) for value in task.carried.values())


def test_validation_in_parts_is_about_validation_at_once() -> None:
    task = make_task()
    task.model.eval()
    one = task.score([task.validate(0, 1)])
    two = task.score([task.validate(part, 2) for part in range(2)])
    assert task.validate(0, 1)["tokens"] == sum(task.validate(part, 2)["tokens"] for part in range(2)) == 79
    assert one["loss"] == pytest.approx(two["loss"], rel=0.05)


def test_scored_in_segments_as_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()
    network, ids = task.model.eval(), task.valid
    at_once = log_probabilities(network, ids, 5)
    monkeypatch.setattr("harken.tasks.language.scoring.SEGMENT", 7)
    assert np.allclose(log_probabilities(network, ids, 5), at_once, atol=1e-5)
    assert len(log_probabilities(network, ids, 5, rows=3)) == len(at_once) == len(ids) - 1


def test_a_window_of_a_transformer_scores_its_second_half() -> None:
    task = transformer_task()
    network, ids = task.model.eval(), task.valid
    found = log_probabilities(network, ids, 6)
    assert len(found) == len(ids) - 1
    with torch.no_grad():
        for start in (0, 3, 30):
            logits = network.logits(network(torch.from_numpy(ids[None, start : start + 6]))[0])[0].log_softmax(-1)
            for place in range(0 if start == 0 else 3, 6):
                assert found[start + place] == pytest.approx(float(logits[place, ids[start + place + 1]]), abs=1e-5)
    assert np.allclose(log_probabilities(network, ids[:5], 6), found[:4], atol=1e-5)


RUN = [
    "data.size=150",
    "model.embedding=8",
    "model.width=8",
    "data.chunk=6",
    "train.batch_tokens=24",
    "train.max_steps=30",
    "train.max_minutes=none",
    "train.checkpoint_every=7",
    "train.validate_every=20",
    "train.precision=float32",
    "train.device=cpu",
    "model.weight_drop=0.3",
    "model.word_dropout=0.1",
]


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_resumed_is_uninterrupted(workers: int, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("phrasebook-language", [*RUN, f"train.workers={workers}"], at=17)
