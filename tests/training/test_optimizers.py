"""AdamW as the paper has it, decay on matrices only, clipping by the norm over all parameters together."""

import pytest
import torch
from torch import Tensor, nn

from harken.training.config import TrainConfig
from harken.training.optimizers import build_optimizer, clip_by_global_norm, optimizer_tensors, restore_optimizer


def model_with_gradients() -> nn.Module:
    torch.manual_seed(1)
    model = nn.Linear(3, 2)
    model(torch.randn(4, 3)).pow(2).sum().backward()
    return model


def names(model: nn.Module) -> dict[Tensor, str]:
    return {value: name for name, value in model.named_parameters()}


def test_one_update_by_hand() -> None:
    model = model_with_gradients()
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    gradients = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    build_optimizer(model, TrainConfig(max_steps=1, learning_rate=0.1, weight_decay=0.5)).step()
    for name, value in model.named_parameters():
        decayed = before[name] * (1 - 0.1 * 0.5) if name == "weight" else before[name]
        expected = decayed - 0.1 * gradients[name] / (gradients[name].abs() + 1e-9)  # bias-corrected: m = g, v = g^2
        torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=1e-6)


def test_clipping_by_the_global_norm() -> None:
    model = model_with_gradients()
    gradients = [value.grad.clone() for value in model.parameters() if value.grad is not None]
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert float(clip_by_global_norm(model.parameters(), float(norm) / 4)) == pytest.approx(float(norm))
    for value, gradient in zip(model.parameters(), gradients, strict=True):
        torch.testing.assert_close(value.grad, gradient / 4, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("limit", [None, 1e6])
def test_small_gradients_stay_as_they_are(limit: float | None) -> None:
    model = model_with_gradients()
    gradients = [value.grad.clone() for value in model.parameters() if value.grad is not None]
    norm = clip_by_global_norm(model.parameters(), limit)
    assert float(norm) == pytest.approx(float(torch.cat([gradient.flatten() for gradient in gradients]).norm()))
    assert all(torch.equal(value.grad, old) for value, old in zip(model.parameters(), gradients, strict=True))


def test_what_is_remembered_can_be_put_back() -> None:
    config = TrainConfig(max_steps=1, learning_rate=0.1)
    model, twin = model_with_gradients(), model_with_gradients()
    first = build_optimizer(model, config)
    first.step()
    saved = {name: value.clone() for name, value in optimizer_tensors(first, names(model))}
    assert sorted(saved) == sorted(
        f"optimizer.{key}.{name}" for key in ("step", "exp_avg", "exp_avg_sq") for name in ("weight", "bias")
    )
    second = build_optimizer(twin, config)
    restore_optimizer(second, names(twin), saved)
    twin.load_state_dict(model.state_dict())
    first.step()
    second.step()
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), twin.parameters(), strict=True))
