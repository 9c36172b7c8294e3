"""Updates out of the ordinary: losses that jump, and weights that no gradient reaches."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from harken.training import loop
from harken.training.checkpoints import Progress
from harken.training.log import read_metrics
from harken.training.monitor import STAYS_UP, dead_gradients, loss_jump
from harken.training.strategies.group import Group


def test_a_jump_is_told_where_the_loss_stays_up() -> None:
    state, random = Progress(), np.random.default_rng(1)
    assert not any(loss_jump(state, 3.0 + 0.2 * random.normal()) for _ in range(500))
    warnings = [loss_jump(state, 8.0 + 0.5 * random.normal()) for _ in range(100)]
    assert [update for update, warning in enumerate(warnings, 1) if warning] == [STAYS_UP]
    assert re.match(r"the loss jumped to [78]\.\d+ from a running mean of 3\.\d+ and stayed up", warnings[STAYS_UP - 1])
    assert not any(loss_jump(state, 8.0 + 0.5 * random.normal()) for _ in range(500))


def test_a_batch_of_outliers_is_no_jump() -> None:
    state, random = Progress(), np.random.default_rng(2)
    losses = 1.1 + 0.05 * random.normal(size=3000)
    losses[::97] = 1.75  # as recorded in tests/folders/recurrent: 1.75 from a running mean of 1.12
    losses[1500:1510] = 5.0  # ten bad batches in a row
    assert not any(loss_jump(state, loss) for loss in losses)
    assert 1.0 < state.loss_mean < 1.2


@pytest.mark.parametrize("cause", ["outliers", "learning rate"])
def test_a_run_warns_of_too_high_a_learning_rate_and_not_of_outliers(
    trainer: Callable, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    class Recorded(table):
        losses: ClassVar[list[float]] = []

        def loss(self, model: nn.Module, batch: np.ndarray) -> tuple[torch.Tensor, int]:
            total, count = super().loss(model, batch)
            if cause == "outliers" and len(self.losses) in (150, 200, 201):
                total = total + 100 * count
            self.losses.append(float(total.detach()) / count)
            return total, count

    if cause == "learning rate":
        monkeypatch.setattr(loop, "factor", lambda schedule, step, *_: 1.0 if step < 150 else 300.0)
    task = Recorded()
    task.losses.clear()
    trainer(task, max_steps=250, validate_every=1000, checkpoint_every=1000, average=0.0).run()
    assert max(task.losses[150:]) > 20 * np.mean(task.losses[100:150])
    events = [entry["event"] for entry in read_metrics(tmp_path / "run") if entry["kind"] == "event"]
    assert len(events) == (cause == "learning rate") and all("lower train.learning_rate" in event for event in events)


def test_weights_without_a_gradient_are_named_after_three_checks() -> None:
    model, state = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), Progress()
    model[0](torch.ones(1, 2)).sum().backward()
    said = [dead_gradients(state, model, list) for _ in range(4)]
    assert said == ["", "", "no gradient reaches '1.weight', '1.bias': these weights do not learn", ""]
    model[1](torch.ones(1, 2)).sum().backward()
    assert dead_gradients(state, model, list) == "" and state.dead == {}


def test_ranks_without_gradients_ask_the_others(table: Any, ranks: Callable) -> None:
    """After the diagnosis of a NaN some ranks have gradients and others none; the next collective must be the same."""

    def body(group: Group) -> str:
        model = table().model
        if group.rank == 0:
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
        dead_gradients(Progress(), model, group.maximum)
        return str(group.maximum([float(group.rank)]))

    assert ranks(2, body) == [{"value": "[1.0]"}] * 2
