"""Defaults fitted to the budget: what a recipe leaves open, and only that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harken.plan import Plan, fit_training, prepare, resolve
from harken.recipe import as_recipe
from harken.tasks.elmo.task import ElmoTask
from harken.tasks.language.task import LanguageTask
from harken.training.config import TrainConfig
from harken.training.planning import fitting, measuring
from harken.training.planning.fitting import choose_size, fit
from harken.training.planning.measuring import seconds_per_update, seconds_per_validation
from harken.training.task import with_settings


class Rows:
    """A task of 102,400 rows of one token each."""

    smallest_batch = 1024
    monitor, mode = "loss", "min"

    def __init__(self, config: TrainConfig) -> None:
        torch.manual_seed(0)
        self.settings, self.model = config, nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))

    def epoch(self, number: int) -> list[np.ndarray]:
        return np.array_split(np.arange(102_400), -(-102_400 // self.settings.batch_tokens))

    def size(self, indices: np.ndarray) -> int:
        return len(indices)

    def share(self, indices: np.ndarray, parts: int) -> list[np.ndarray]:
        return np.array_split(indices, parts)

    def collate(self, indices: np.ndarray) -> Tensor:
        return torch.from_numpy(np.stack([indices, -indices], axis=1)).float()

    def loss(self, model: Any, batch: Tensor) -> tuple[Tensor, int]:
        return model(batch).square().sum(), len(batch)


def configured(**values: Any) -> TrainConfig:
    return TrainConfig(device="cpu", precision="float32", workers=1, threads=1, **values)


@pytest.fixture
def one_second_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fitting, "seconds_per_update", lambda task, config, epoch, seconds: len(epoch[0]) * config.accumulate / 1024
    )
    monkeypatch.setattr(fitting, "seconds_per_validation", lambda task, config: 0.0)


@pytest.mark.parametrize(
    ("budget", "batch", "updates", "warmup"),
    [
        ({"max_steps": 300}, 4096, 300, 15),  # a budget in updates says nothing of their size
        ({"max_epochs": 10}, 1024, 1000, 50),
        ({"max_epochs": 160}, 4096, 4000, 200),
        ({"max_minutes": 10}, 1024, 540, 27),
        ({"max_minutes": 10, "max_epochs": 1}, 1024, 100, 5),
        ({"max_minutes": 10, "batch_tokens": 512}, 512, 1080, 54),
        ({"max_minutes": 10, "accumulate": 2}, 1024, 270, 13),
    ],
)
@pytest.mark.usefixtures("one_second_a_batch")
def test_updates_and_warmup_follow_the_budget(budget: dict[str, Any], batch: int, updates: int, warmup: int) -> None:
    config = configured(**budget)
    fitted = fit(Rows(config), config, learning_rate=2e-3)
    assert (fitted.config.batch_tokens, fitted.updates, fitted.config.warmup_steps) == (batch, updates, warmup)
    assert fitted.config.learning_rate == 2e-3
    assert config == configured(**budget)  # a recipe is not changed


@pytest.mark.usefixtures("one_second_a_batch")
def test_values_of_the_recipe_are_kept() -> None:
    given = {"warmup_steps": 7, "learning_rate": 0.5, "average": 0.0, "batch_tokens": 64, "label_smoothing": 0.2}
    config = configured(max_epochs=1, **given)
    fitted = fit(Rows(config), config, learning_rate=2e-3)
    assert {key: getattr(fitted.config, key) for key in given} == given
    reasons = {decision.key: decision.reason for decision in fitted.decisions}
    assert set(reasons) == {"train.validate_every", "train.validate_sentences", "train.checkpoint_every"}
    assert reasons["train.validate_every"] == "eight validations"


@pytest.mark.usefixtures("one_second_a_batch")
@pytest.mark.parametrize(("epochs", "smoothing"), [(1, 0.0), (4, 0.05), (8, 0.1)])
def test_data_seen_once_is_not_smoothed(epochs: int, smoothing: float) -> None:
    config = configured(max_epochs=epochs)
    fitted = fit(Rows(config), config, learning_rate=1e-3)
    assert (fitted.epochs, fitted.config.label_smoothing) == (epochs, smoothing)


@pytest.mark.usefixtures("one_second_a_batch")
@pytest.mark.parametrize(
    ("minutes", "seconds", "sentences"),
    [(2, 12.0, 300), (2, 48.0, 75), (2, 600.0, 30), (29, 48.0, 300), (30, 600.0, None)],
)
def test_a_validation_takes_a_tenth_of_a_short_run_at_most(
    monkeypatch: pytest.MonkeyPatch, minutes: float, seconds: float, sentences: int | None
) -> None:
    """On a busy machine 300 sentences would take longer than the whole budget."""
    monkeypatch.setattr(
        fitting, "seconds_per_validation", lambda task, config: seconds * config.validate_sentences / 300
    )
    config = configured(max_minutes=minutes)
    fitted = fit(Rows(config), config, learning_rate=1e-3)
    assert fitted.config.validate_sentences == sentences
    given = configured(max_minutes=minutes, validate_sentences=200)
    assert fit(Rows(given), given, learning_rate=1e-3).config.validate_sentences == 200


def test_the_time_of_a_validation_is_measured_with_the_given_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Decodes(Rows):
        def validate(self, part: int, parts: int) -> None:
            nonlocal now
            now += 0.1 * self.settings.validate_sentences / parts

    monkeypatch.setattr(measuring, "time", SimpleNamespace(perf_counter=lambda: now))
    task = Decodes(configured(max_minutes=1, validate_sentences=30))
    config = TrainConfig(device="cpu", precision="float32", workers=2, threads=1, validate_sentences=300)
    assert seconds_per_validation(task, config) == pytest.approx(15)  # type: ignore[arg-type]
    assert task.settings.validate_sentences == 30


def test_measuring_changes_neither_weights_nor_buffers_nor_settings() -> None:
    config = configured(max_minutes=1)
    task = Rows(config)
    before = {name: value.clone() for name, value in task.model.state_dict().items()}
    assert seconds_per_update(task, config, task.epoch(0), 0.1) > 0  # type: ignore[arg-type]
    after = task.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert all(parameter.grad is None for parameter in task.model.parameters())
    assert "batch_tokens" not in config.model_fields_set


def rows_of_width(config: TrainConfig) -> Callable[[int], Any]:
    def build(width: int) -> Any:
        task = Rows(config)
        task.model = nn.Linear(2, width)  # type: ignore[assignment]
        return task

    return build


@pytest.mark.parametrize(("before", "measured"), [(0, [16, 4, 1]), (100, [16, 1]), (200, [1])])
def test_sizes_are_measured_in_the_first_fifth_of_a_budget_in_minutes(
    monkeypatch: pytest.MonkeyPatch, before: float, measured: list[int]
) -> None:
    """Each takes 50 seconds of ten minutes: a busy machine still has time to train."""
    now, widths = before, list[int]()

    def seconds_of(task: Any, config: TrainConfig, epoch: Any, limit: float) -> float:
        nonlocal now
        now += 50
        widths.append(task.model.out_features)
        return 1.0

    monkeypatch.setattr(fitting, "seconds_per_update", seconds_of)
    config = configured(max_minutes=10)
    size, _ = choose_size((16, 4, 1), rows_of_width(config), config, elapsed=lambda: now)
    assert (size, widths) == (1, measured)


@pytest.mark.parametrize(("minutes", "size"), [(100, 16), (10, 4), (1, 1)])
def test_the_largest_network_with_enough_updates_is_chosen(
    monkeypatch: pytest.MonkeyPatch, minutes: int, size: int
) -> None:
    seconds = lambda task, config, epoch, limit: task.model.out_features / 16  # noqa: E731
    monkeypatch.setattr(fitting, "seconds_per_update", seconds)
    config = configured(max_minutes=minutes)
    chosen, epochs = choose_size((16, 4, 1), rows_of_width(config), config, few=2000)
    assert chosen == size
    assert epochs == pytest.approx(0.9 * 60 * minutes * 16 / size / 100)


def test_settings_that_a_task_does_not_read_are_not_fitted() -> None:
    class Unread(Rows):
        unread = frozenset({"label_smoothing", "validate_sentences"})

    config = configured(max_steps=300)
    names = [{decision.name for decision in fit(kind(config), config, 1e-3).decisions} for kind in (Rows, Unread)]
    assert names[0] - names[1] == {"label_smoothing", "validate_sentences"} and "average" in names[1]


def test_a_task_whose_score_is_its_loss_is_not_smoothed() -> None:
    """Smoothing holds every probability below 1, so that the perplexity of text that is nearly certain is too high."""

    class Perplexity(Rows):
        smoothing = 0.0

    config = configured(max_steps=300)
    smoothed = [fit(kind(config), config, 1e-3).config.label_smoothing for kind in (Rows, Perplexity)]
    assert smoothed == [0.1, 0.0]
    given = configured(max_steps=300, label_smoothing=0.2)
    assert fit(Perplexity(given), given, 1e-3).config.label_smoothing == 0.2
    assert (LanguageTask.smoothing, ElmoTask.smoothing) == (0.0, 0.0)


def test_a_task_by_other_settings_leaves_the_given_one_as_it_is() -> None:
    task = Rows(TrainConfig(batch_tokens=512))
    other = with_settings(task, TrainConfig(batch_tokens=1024))
    assert (task.settings.batch_tokens, other.settings.batch_tokens) == (512, 1024)
    assert other.model is task.model and with_settings(task, task.settings) is task


def test_a_plan_leaves_the_task_that_it_fits_as_it_is(tmp_path: Path) -> None:
    recipe = as_recipe({"task": "tag", "data": {"corpus": "phrasebook"}, "train": {"max_steps": 40, "device": "cpu"}})
    given = prepare(resolve(recipe)[0], tmp_path)
    fitted = fit_training(Plan(recipe, given))
    assert fitted.fitted["checkpoint_every"] == 5 and given.task.settings.checkpoint_every != 5
    assert fitted.prepared.task.settings == fitted.recipe.train and fitted.prepared.task.model is given.task.model
