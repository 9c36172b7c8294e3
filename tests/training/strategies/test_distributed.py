"""1, 2 and 4 ranks optimise the same objective, with replicas of the weights and with divided ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harken.models.transformer import packed
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.tasks.translate.task import PackedBatch, TranslationTask
from harken.training.config import TrainConfig
from harken.training.log import read_metrics
from harken.training.loop import Trainer
from harken.training.strategies import choose_strategy
from harken.training.strategies import distributed as module
from harken.training.strategies.group import Group

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.05, "schedule": "constant", "warmup_steps": 0, "validate_every": 4, "checkpoint_every": 2,
    "log_every": 1, "device": "cpu", "precision": "float32", "workers": 1, "threads": 1, "max_steps": 6,
}  # fmt: skip
RUN = {"max_steps": 6, "log_every": 1, "validate_every": 3, "checkpoint_every": 3}
SHORT = [
    "train.max_epochs=none", "train.max_minutes=none", "train.average=0.5", "train.warmup_steps=0", "train.workers=1",
    "train.threads=1", "train.device=cpu", "train.precision=float32",
]  # fmt: skip
NARROW = ["model.width=8", "model.embedding=8", "train.batch_tokens=100"]
TINY = {
    "phrasebook-transformer": [
        "data.size=200", "model.layers=1", "model.width=16", "model.heads=2", "model.feedforward=16",
        "train.validate_sentences=2", "train.batch_tokens=100",
    ],
    "phrasebook-language": ["data.size=60", *NARROW],
    "phrasebook-tag": ["data.size=60", *NARROW],
    "tones-transcribe": ["data.size=8", "data.valid_size=4", "data.test_size=2", *NARROW],
}  # fmt: skip
BATCHES = [np.arange(0, 7), np.arange(7, 12), np.array([12])]  # with fewer examples than ranks


def config(**changes: Any) -> TrainConfig:
    return TrainConfig(**{**SETTINGS, **changes})


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in read_metrics(folder) if entry["kind"] == "train"]


def new_folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


@pytest.mark.parametrize(("world_size", "sharding"), [(2, "none"), (4, "none"), (2, "full")])
def test_gradients_are_those_of_one_process(
    table: Any, ranks: Callable, world_size: int, sharding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUCKET", 64)  # several buckets, also for a small network
    alone = choose_strategy(table(dropout=0.0), config())
    loss = alone.backward(1, BATCHES, 13)
    gradients = [parameter.grad.tolist() for parameter in alone.task.model.parameters()]

    def body(group: Group) -> Any:
        strategy = choose_strategy(table(dropout=0.0), config(sharding=sharding), group)
        found = strategy.backward(1, BATCHES, 13)
        parts = [parameter.grad for parameter in strategy.task.model.parameters()]
        return found, [(part.full_tensor() if sharding == "full" else part).tolist() for part in parts]

    for outcome in ranks(world_size, body):
        assert outcome["value"][0] == pytest.approx(loss, rel=1e-5)
        for found, expected in zip(outcome["value"][1], gradients, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "recipe",
    ["phrasebook-language", *(pytest.param(name, marks=pytest.mark.slow) for name in TINY if "lang" not in name)],
)
def test_every_number_of_ranks_has_the_same_losses(recipe: str, ranks: Callable, tmp_path: Path) -> None:
    """Without dropout, whose random numbers are drawn by rank. The language model carries its states."""
    compare_numbers_of_ranks(prepare(recipe, tmp_path / "artifacts"), ranks, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_packed_pairs_have_the_same_losses(
    norm: str, ranks: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where the Transformer reads packed pairs; here the reference computes."""
    prepared = prepare("phrasebook-transformer", tmp_path / "artifacts", f"model.norm={norm}", "model.layers=2")
    monkeypatch.setattr(TranslationTask, "packs", property(lambda task: packed.why_not_blocks(task.model) is None))
    assert isinstance(prepared.task.collate(prepared.task.epoch(0)[0]), PackedBatch)
    compare_numbers_of_ranks(prepared, ranks, tmp_path)


def compare_numbers_of_ranks(prepared: Any, ranks: Callable, tmp_path: Path) -> None:
    def run(world_size: int, name: str, **changes: Any) -> list[float]:
        folder = new_folder(tmp_path / name)

        def body(group: Group) -> None:
            settings = prepared.train.model_copy(update=changes)
            Trainer(prepared.task, settings, folder, group=group if world_size > 1 else None).run()

        assert ranks(world_size, body) == [{"value": None}] * world_size
        return losses(folder)

    alone = run(1, "alone")
    assert len(alone) == 6 and alone[-1] != alone[0]
    for world_size, sharding in [(2, "none"), (4, "none"), (2, "full")]:
        assert run(world_size, f"{world_size}-{sharding}", sharding=sharding) == pytest.approx(alone, rel=1e-5)


class Ready:
    def __init__(self, task: Any, train: TrainConfig) -> None:
        self.task, self.train = task, train


def prepare(name: str, folder: Path, *more: str) -> Ready:
    """A small task of a recipe, with dropout off."""
    changed = [*SHORT, *TINY[name], *(f"train.{key}={json.dumps(value)}" for key, value in RUN.items())]
    recipe = load_recipe(name, [*changed, *more])
    for name in set(type(recipe).model_fields) - {"task", "train", "data"}:
        section = getattr(recipe, name)
        dropped = {key: 0.0 for key in type(section).model_fields if "dropout" in key or "zoneout" in key}
        recipe = recipe.model_copy(update={name: section.model_copy(update=dropped)})
    torch.manual_seed(1)
    return Ready(job_of(recipe.task).prepare(recipe, new_folder(folder), False).task, recipe.train)
