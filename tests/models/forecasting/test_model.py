"""A forecaster's network: padding, scale, quantiles, fed-back steps, size."""

from itertools import product
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter

from harken.models.forecasting.config import AnyForecasterConfig, ForecasterConfig
from harken.models.forecasting.model import ForecastNetwork
from harken.models.sizing import measure
from harken.tasks.forecast.recipe import ForecastRecipe

ARCHITECTURES = ["recurrent", "transformer", "convolutional"]
BASES = ["smoothing", "seasonal", "last", "none"]


def config(architecture: str, **words: Any) -> AnyForecasterConfig:
    kind: TypeAdapter[AnyForecasterConfig] = TypeAdapter(ForecasterConfig)
    return kind.validate_python({"architecture": architecture, "width": 8, "dropout": 0.0, **words})


def network(architecture: str = "recurrent", known: int = 2, horizon: int = 4, **words: Any) -> ForecastNetwork:
    torch.manual_seed(0)
    model = ForecastNetwork(config(architecture, **words), channels=2 + known, known=known, horizon=horizon, season=3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and "rates" not in name:  # heads start at 0, which would hide everything
                parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def inputs(rows: int = 3, steps: int = 7, known: int = 2, horizon: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(rows, steps, 2 + known), torch.randn(rows, horizon, known)


@pytest.mark.parametrize(("architecture", "base"), [*product(ARCHITECTURES, BASES)])
def test_padding_changes_nothing(architecture: str, base: str) -> None:
    model = network(architecture, base=base)
    past, future = inputs()
    alone = model(past[:, :5], None, future)
    padded = past.clone()
    padded[:, 5:] = 99.0
    together = model(padded, torch.tensor([5, 5, 5]), future)
    assert torch.allclose(alone, together, atol=1e-4)


@pytest.mark.parametrize("base", BASES)
def test_level_and_scale_go_through(base: str) -> None:
    model = network(base=base)
    with torch.no_grad():
        model.floor.zero_()
    past, future = inputs()
    moved = past.clone()
    moved[..., 0] = 5.0 * past[..., 0] + 100.0
    assert torch.allclose(model(moved, None, future), 5.0 * model(past, None, future) + 100.0, atol=1e-2)


def test_quantiles_never_cross() -> None:
    model = network(quantiles=[0.05, 0.25, 0.5, 0.75, 0.95])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(5.0)
    found = model(*inputs()[:1], None, inputs()[1])
    assert found.shape == (3, 4, 5)
    assert (found.diff(dim=-1) >= 0).all()


def test_members_are_averaged() -> None:
    model = network(members=3)
    past, future = inputs()
    each = model.each(past, None, future)
    assert each.shape[0] == 3 and not torch.allclose(each[0], each[1])
    assert torch.allclose(model(past, None, future), each.mean(0))


def test_one_step_is_fed_back() -> None:
    model = network(strategy="recursive", quantiles=[0.5])
    past, future = inputs()
    found = model.unroll(past, torch.tensor([7, 7, 5]), future)
    assert found.shape == (3, 4, 1)
    row, steps = past[2:, :5], []
    for step in range(4):
        median = model(row, None, future[2:, step : step + 1])
        steps.append(median[:, 0])
        fresh = torch.cat([median[:, 0], row[:, -1, 1:2], future[2:, step]], -1)[:, None]
        row = torch.cat([row, fresh], 1)[:, -7:]
    assert torch.allclose(found[2:], torch.stack(steps, 1), atol=1e-4)


def test_steps_beyond_the_horizon_are_less_sure() -> None:
    model = network(horizon=2)
    past, _ = inputs()
    future = inputs(horizon=6)[1]
    found = model.unroll(past, None, future)
    assert torch.allclose(found[:, :2], model(past, None, future[:, :2]))
    width = found[..., -1] - found[..., 0]
    assert (width[:, 2] > width[:, 1]).all() and (width[:, 4] > width[:, 3]).all()


def test_pinball_is_the_absolute_error_of_a_median() -> None:
    model = network(quantiles=[0.5])
    found = torch.tensor([[[1.0], [4.0]]])
    wanted, counted = torch.tensor([[3.0, 1.0]]), torch.tensor([[1.0, 0.0]])
    assert model.loss(found, wanted, counted) == 2.0


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_parameter_has_a_gradient(architecture: str) -> None:
    model = network(architecture)
    past, future = inputs(steps=9)
    model.loss(model.each(past, None, future), torch.zeros(3, 4), torch.ones(3, 4)).backward()
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    assert [name for name, value in trained.items() if value.grad is None or not value.grad.any()] == []


@pytest.mark.parametrize(("architecture", "base", "known"), [*product(ARCHITECTURES, BASES, [0, 2])])
def test_the_cost_grows_with_the_window(architecture: str, base: str, known: int) -> None:
    words = {"architecture": architecture, "width": 8, "base": base, "members": 2}
    recipe = ForecastRecipe.model_validate(
        {"data": {"corpus": "seasons", "season": 3, "horizon": 4}, "model": words, "train": {"max_steps": 1}}
    )
    model = ForecastNetwork(recipe.model, channels=2 + known, known=known, horizon=4, season=3)
    short, long = (measure(model, window, terms=4) for window in (10, 100))
    assert short.total == sum(value.numel() for value in model.parameters())
    assert long.flops > 5 * short.flops


def test_influence_is_a_derivative() -> None:
    model = network(base="last", known=0, residual=True)
    past, future = inputs(known=0, rows=1)
    strength = model.influence(past, None, future)[0]
    assert abs(float(strength.sum()) - 1) < 1e-5
    slopes = []
    for step in (2, 6):
        up, down = past.clone(), past.clone()
        up[0, step, 0] += 1e-2
        down[0, step, 0] -= 1e-2
        moved = (model(up, None, future) - model(down, None, future))[..., 1].mean()
        slopes.append(abs(float(moved.detach())))
    assert abs(slopes[0] / slopes[1] - float(strength[2] / strength[6])) < 0.05 * slopes[0] / slopes[1]
