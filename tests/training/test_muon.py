"""Muon equals torch's where torch has it, and leaves everything alone when a step is to be skipped."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from harken.training.config import TrainConfig
from harken.training.muon import Muon, orthogonalised
from harken.training.optimizers import build_optimizer, hidden_matrices, optimizer_tensors, restore_optimizer


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(11, 6), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Linear(6, 8))


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.arange(11)).pow(3).sum().backward()
    optimizer.step()


def test_matrices_are_updated_as_by_torch() -> None:
    if not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")
    config = TrainConfig(max_steps=1, optimizer="muon", learning_rate=0.01, weight_decay=0.1)
    model, twin = network(), network()
    ours = build_optimizer(model, config)
    matrices = hidden_matrices(twin)
    assert isinstance(ours, Muon) and len(matrices) == 3
    options = {"lr": 0.01, "weight_decay": 0.1, "momentum": 0.95, "adjust_lr_fn": "match_rms_adamw"}
    theirs = torch.optim.Muon(matrices, **options)
    rest = torch.optim.AdamW(
        [
            {"params": [twin[0].weight], "weight_decay": 0.1},
            {"params": [value for value in twin.parameters() if value.dim() == 1], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=config.betas,
        eps=1e-9,
    )
    start = [value.detach().clone() for value in hidden_matrices(model)]
    for _ in range(3):
        step(model, ours)
        twin.zero_grad()
        twin(torch.arange(11)).pow(3).sum().backward()
        theirs.step()
        rest.step()
    for mine, other, before in zip(hidden_matrices(model), matrices, start, strict=True):
        change, wanted = mine.detach() - before, other.detach() - before
        assert ((change - wanted).norm() / wanted.norm()).item() < 0.05  # torch iterates in bfloat16
    torch.testing.assert_close(model[0].weight, twin[0].weight, rtol=1e-3, atol=1e-4)


def test_singular_values_become_about_one() -> None:
    torch.manual_seed(0)
    for shape in ((5, 9), (9, 5), (2, 6, 6)):
        values = torch.linalg.svdvals(orthogonalised(torch.randn(shape) * 100).float())
        assert values.min().item() > 0.5 and values.max().item() < 1.3


def test_a_step_that_is_to_be_skipped_changes_nothing() -> None:
    model = network()
    optimizer = build_optimizer(model, TrainConfig(max_steps=1, optimizer="muon", learning_rate=0.01))
    step(model, optimizer)
    names = {value: name for name, value in model.named_parameters()}
    before = {name: value.clone() for name, value in optimizer_tensors(optimizer, names)}
    weights = [value.detach().clone() for value in hidden_matrices(model)]
    assert isinstance(optimizer, Muon)
    for value in hidden_matrices(model):
        value.grad = torch.full_like(value, torch.nan)
    optimizer.others = SimpleNamespace(step=lambda: None)  # type: ignore[assignment]
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(torch.nan), torch.tensor(1.0)
    optimizer.step()
    assert all(torch.equal(old, new) for old, new in zip(weights, hidden_matrices(model), strict=True))
    after = dict(optimizer_tensors(optimizer, names))
    assert all(torch.equal(after[name], value) for name, value in before.items() if "momentum" in name)


def test_state_can_be_restored() -> None:
    config = TrainConfig(max_steps=1, optimizer="muon", learning_rate=0.01)
    model, twin = network(), network()
    first, second = build_optimizer(model, config), build_optimizer(twin, config)
    step(model, first)
    names = {value: name for name, value in model.named_parameters()}
    saved = {name: value.clone() for name, value in optimizer_tensors(first, names)}
    assert "optimizer.momentum_buffer.1.weight" in saved and "optimizer.exp_avg.0.weight" in saved
    restore_optimizer(second, {value: name for name, value in twin.named_parameters()}, saved)
    twin.load_state_dict(model.state_dict())
    step(model, first)
    step(twin, second)
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), twin.parameters(), strict=True))


def test_a_new_rate_reaches_both_optimizers() -> None:
    model = network()
    optimizer = build_optimizer(model, TrainConfig(max_steps=1, optimizer="muon", learning_rate=0.01))
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    before = [value.detach().clone() for value in model.parameters()]
    step(model, optimizer)
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
