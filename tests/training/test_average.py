"""The running average of weights, compared with one worked out by hand."""

import torch
from torch import nn

from harken.training.average import EVERY, Average


def linear(value: float) -> nn.Linear:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def test_it_follows_the_formula() -> None:
    model = linear(1.0)
    average, expected = Average(model, 0.9), 1.0
    for step in range(1, 201):
        nn.init.constant_(model.weight, float(step))
        average.update(step)
        if step % EVERY == 0:
            decay = min(0.9, (1 + step) / (10 + step)) ** EVERY
            expected = decay * expected + (1 - decay) * step
            torch.testing.assert_close(average.shadow["weight"], torch.tensor([[expected]]), rtol=1e-5, atol=1e-5)
    assert 180 < expected < 200  # the last tens of steps count


def test_nothing_happens_between_its_steps() -> None:
    model = linear(1.0)
    average = Average(model, 0.5)
    nn.init.constant_(model.weight, 5.0)
    for step in range(1, EVERY):
        average.update(step)
    assert average.shadow["weight"].item() == 1.0


def test_applied_puts_the_weights_back_even_after_an_error() -> None:
    model = linear(1.0)
    average = Average(model, 0.5)
    nn.init.constant_(model.weight, 7.0)
    try:
        with average.applied():
            assert model.weight.item() == 1.0
            raise ValueError
    except ValueError:
        pass
    assert model.weight.item() == 7.0
    assert average.shadow["weight"].item() == 1.0


def test_without_decay_the_weights_stand_for_themselves() -> None:
    model = linear(3.0)
    average = Average(model, 0.0)
    average.update(EVERY)
    assert average.shadow == {}
    with average.applied():
        assert model.weight.item() == 3.0
