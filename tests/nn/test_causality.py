"""Layers that read both ways are found wherever they are, and the reason is what happens when they are not refused."""

import pytest
import torch
from torch import nn

from harken.nn import GRU, LSTM, refuse_bidirectional


@pytest.mark.parametrize(
    "layer",
    [
        LSTM(2, 3, bidirectional=True, batch_first=True),
        nn.GRU(2, 3, bidirectional=True),
        nn.Sequential(nn.Linear(2, 2), GRU(2, 3, bidirectional=True, batch_first=True)),
        True,
    ],
)
def test_refused(layer: nn.Module | bool) -> None:
    with pytest.raises(ValueError, match="layer in a language model would see the words it has to predict"):
        refuse_bidirectional(layer, "a language model")


@pytest.mark.parametrize("layer", [LSTM(2, 3, batch_first=True), nn.Sequential(nn.Linear(2, 2), nn.GRU(2, 3)), False])
def test_allowed(layer: nn.Module | bool) -> None:
    refuse_bidirectional(layer, "a language model")


def test_the_reason_is_true() -> None:
    values = torch.randn(1, 4, 2, requires_grad=True)
    for both in (True, False):
        output = LSTM(2, 3, bidirectional=both, batch_first=True)(values)[0]
        (gradient,) = torch.autograd.grad(output[:, 1].sum(), values)
        assert bool((gradient[:, 2:] != 0).any()) == both
