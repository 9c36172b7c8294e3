"""train.batch_tokens = "auto": the largest batches that fit, tried before the first step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import harken
from harken.errors import MachineError, UserError
from harken.recipe import load_recipe
from harken.training.config import TrainConfig
from harken.training.planning import batch_size
from harken.training.planning.batch_size import choose_batch_tokens


class Rows:
    """A table whose token budget is a number of rows, on a machine with memory for `fits` of them a process."""

    smallest_batch = 64

    def __init__(self, table: Any, fits: int) -> None:
        self.inner, self.fits_rows, self.tried = table(dropout=0.0), fits, list[int]()
        self.model = self.inner.model
        self.settings = TrainConfig(batch_tokens="auto", device="cpu", precision="float32")

    def epoch(self, number: int) -> list[np.ndarray]:
        return [np.arange(self.settings.batch_tokens)] * (100_000 // self.settings.batch_tokens)

    def size(self, examples: np.ndarray) -> int:
        return len(examples)

    def share(self, examples: np.ndarray, parts: int) -> list[np.ndarray]:
        return np.array_split(examples, parts)

    def collate(self, indices: np.ndarray) -> np.ndarray:
        return indices

    def loss(self, model: Any, batch: np.ndarray) -> tuple[Tensor, int]:
        self.tried.append(len(batch))
        if len(batch) > self.fits_rows:
            raise torch.OutOfMemoryError
        return self.inner.summed(batch % 24), len(batch)


@pytest.mark.parametrize(("rows", "chosen"), [(100_000, 4096), (3000, 2048), (1600, 1536), (70, 64)])
def test_the_largest_budget_that_fits_is_chosen(table: Any, rows: int, chosen: int) -> None:
    """Of 100,000 rows, 4,096 are the most that leave 20 batches an epoch."""
    task = Rows(table, rows)
    before = [value.clone() for value in task.model.parameters()]
    assert choose_batch_tokens(task, task.settings) == chosen
    small = [size for size in task.tried[:5] if size <= rows]  # whose memory is looked at first
    assert small[0] == 64 and 4096 in task.tried and max(small) <= 1024
    assert task.settings.auto_batch  # a recipe is not changed
    assert all(torch.equal(one, other) for one, other in zip(before, task.model.parameters(), strict=True))


def test_a_network_that_is_too_large_is_an_error(table: Any) -> None:
    task = Rows(table, 0)
    with pytest.raises((MachineError, torch.OutOfMemoryError)):
        choose_batch_tokens(task, task.settings)


def test_the_rank_with_the_least_memory_decides(table: Any, ranks: Callable) -> None:
    def body(group: Any) -> list[int]:
        task = Rows(table, 1500 if group.is_main else 700)  # of a share, the half of a batch
        return [choose_batch_tokens(task, task.settings, group), max(task.tried)]

    assert [outcome["value"] for outcome in ranks(2, body)] == [[1024, 2048], [1024, 2048]]


def test_a_divided_model_grows_its_budget_without_running_out_of_memory(
    table: Any, ranks: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 would use 0.1 of its memory for the model and 0.8 for 1,000 rows of its share, the half of a batch."""

    def body(group: Any) -> list[int]:
        task = Rows(table, 100_000)
        task.settings = task.settings.model_copy(update={"sharding": "full"})
        size = 0.0008 if group.rank else 0.0002
        monkeypatch.setattr(batch_size, "memory_share", lambda device, workers: 0.1 + size * max(task.tried))
        return [choose_batch_tokens(task, task.settings, group), max(task.tried)]

    # a batch of 1,024 takes 0.51 on rank 1 and one of 2,048 would take 0.92; 1,536 fit and are not tried
    assert [outcome["value"] for outcome in ranks(2, body)] == [[1536, 512], [1536, 512]]


@pytest.mark.parametrize(("per_row", "chosen"), [(0.0001, 4096), (0.0003, 2048), (0.0008, 1024)])
def test_on_a_cpu_no_budget_is_tried_that_needs_more_memory_than_there_is(
    table: Any, monkeypatch: pytest.MonkeyPatch, per_row: float, chosen: int
) -> None:
    """Linux would kill the process. A row takes `per_row` of the memory; 4,096 rows are the most for this data."""
    task = Rows(table, 100_000)
    monkeypatch.setattr(batch_size, "memory_share", lambda device, workers: per_row * max(task.tried))
    assert (choose_batch_tokens(task, task.settings), max(task.tried)) == (chosen, chosen)


def test_a_job_with_fixed_batches_wants_a_number() -> None:
    config = TrainConfig(batch_tokens="auto")
    with pytest.raises(UserError, match=r'train\.batch_tokens = "auto" does not work for this job'):
        choose_batch_tokens(object(), config)


def test_the_chosen_budget_is_in_the_recipe_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_size, "LARGEST", {"cpu": 300})
    changes = ["train.batch_tokens=auto", "data.size=60", "model.width=8", "model.embedding=8", "train.max_steps=2"]
    fixed = ["train.workers=1", "train.device=cpu", "train.precision=float32", "train.max_minutes=none"]
    harken.train("phrasebook-tag", tmp_path / "run", overrides=[*changes, *fixed], progress=False)
    chosen = load_recipe(tmp_path / "run" / "recipe.toml").train.batch_tokens
    assert chosen in (75, 150, 300)
    harken.train("phrasebook-tag", tmp_path / "run", overrides=[*changes, *fixed], progress=False, resume=True)
