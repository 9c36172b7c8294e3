"""The speed of a task, from a few updates."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harken.errors import UserError
from harken.recipe import load_recipe
from harken.tasks.registry import job_of
from harken.training.planning import measuring
from harken.training.planning.measuring import measure_speed
from harken.training.strategies import StepResult
from harken.training.strategies.base import Single

SMALL = ["data.size=200", "model.embedding=8", "model.width=8", "train.batch_tokens=300", "train.precision=float32"]


@pytest.mark.parametrize("workers", [1, 2])
def test_updates_of_the_task_are_timed_and_its_weights_stay(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "MOST_UPDATES", 5)
    chosen = [*SMALL, f"train.workers={workers}", "train.threads=1", "train.device=cpu", "train.accumulate=2"]
    recipe = load_recipe("opinions-classify", chosen)
    task = job_of("classify").prepare(recipe, tmp_path, False).task
    before = [value.detach().clone() for value in task.model.parameters()]
    found = measure_speed(task, recipe.train, seconds=600)
    assert all(torch.equal(one, other) for one, other in zip(before, task.model.parameters(), strict=True))
    assert found.updates == 5 - measuring.WARM_UP
    epoch = task.epoch(0)
    sizes = [task.size(epoch[place % len(epoch)]) for place in range(10)]
    assert found.tokens_per_update == sum(sizes) / 5
    assert found.seconds_per_update > 0 and found.seconds_per_validation > 0
    assert found.memory_bytes > 50_000_000  # torch alone is larger


def test_a_validation_is_measured_with_the_settings_that_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe("opinions-classify", [*SMALL, "train.workers=2", "train.threads=1", "train.device=cpu"])
    task = job_of("classify").prepare(recipe, tmp_path, False).task
    measured: list[Any] = []
    monkeypatch.setattr(measuring, "measure_validation", lambda strategy: (measured.append(strategy.task), (3.0, 0))[1])
    asked = recipe.train.model_copy(update={"validate_sentences": 7})
    assert measuring.seconds_per_validation(task, asked) == 1.5  # by one process, and there will be two
    assert measured[0].settings.validate_sentences == 7


def test_updates_are_counted_once_they_have_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with CUDA graphs: of each batch the first updates are slow, and all of them are in a first pass."""
    slow, fast, seen, clock = 0.5, 0.02, Counter[tuple[int, int]](), [0.0]

    class Settling(Single):
        settles_after = 2

        def update(self, step: int, batches: Any, num_tokens: int, rate: float) -> StepResult:
            seen[id(self), step] += 1
            clock[0] += slow if seen[id(self), step] <= self.settles_after else fast
            return StepResult(0.0, 0.0, False)

    made: list[Settling] = []

    def choose(task: Any, config: Any) -> Settling:
        made.append(Settling(task, config))
        return made[-1]

    monkeypatch.setattr(measuring, "choose_strategy", choose)
    monkeypatch.setattr(measuring, "MOST_UPDATES", 6)
    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    recipe = load_recipe("opinions-classify", [*SMALL, "train.workers=1", "train.threads=1", "train.device=cpu"])
    task = job_of("classify").prepare(recipe, tmp_path, False).task
    found = measure_speed(task, recipe.train, seconds=600)
    assert len(made) == 2 and found.updates == 6 - measuring.WARM_UP
    assert found.seconds_per_update == pytest.approx(fast)
    assert found.seconds_to_start > 6 * slow


def test_a_task_without_batches_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("opinions-classify", [*SMALL, "train.workers=1", "train.device=cpu"])
    task = job_of("classify").prepare(recipe, tmp_path, False).task
    monkeypatch.setattr(task, "epoch", lambda number: [])
    with pytest.raises(UserError, match="no training batches"):
        measure_speed(task, recipe.train)
