"""Updates out of the ordinary: loss spikes, and weights that no gradient reaches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from harken.training.checkpoints import Progress
from harken.training.monitor import dead_gradients, loss_spike
from harken.training.strategies.group import Group


def test_a_spike_is_said_once_it_stands_out() -> None:
    state, random = Progress(), np.random.default_rng(1)
    said = [loss_spike(state, 3.0 + 0.2 * random.normal()) for _ in range(500)]
    assert not any(said)
    assert loss_spike(state, 8.0).startswith("the loss jumped to 8 from a running mean of ")
    assert not loss_spike(state, 3.1)


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
