"""An adapter learns what its factors in the place of the weights would, and is saved and merged alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from harken.errors import UserError
from harken.training.adapter import Adapter
from harken.training.config import TrainConfig
from harken.training.strategies.base import Single
from harken.training.strategies.forked import Forked
from harken.training.weights import load_tensors, read_weights

CONFIG = TrainConfig(max_steps=9, clip_norm=0.5, device="cpu", precision="float32", average=0.9, workers=2)


def test_gradients_are_those_of_the_factors() -> None:
    """The reference computes with W0 + B A in the place of W, and autograd finds the gradients of A and B."""
    network = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.LSTM(9, 8))
    first = {name: value.detach().clone() for name, value in network.named_parameters()}
    adapter = Adapter(network, 2, "no file")
    with torch.no_grad():
        for up in adapter.up:
            up.normal_()
    adapter.merge()
    inputs, down, up = torch.randn(5, 7), [*adapter.down], [*adapter.up]
    names = [*adapter.matrices]
    assert names == ["0.weight", "2.weight_ih_l0", "2.weight_hh_l0"]

    network(inputs)[0].square().sum().backward()
    adapter.project()
    factors = [
        (value.detach().clone().requires_grad_(), other.detach().clone().requires_grad_())
        for value, other in zip(down, up, strict=True)
    ]
    changed = {name: first[name] + second @ one for name, (one, second) in zip(names, factors, strict=True)}
    outputs = functional_call(network, changed, (inputs,))[0]
    torch.testing.assert_close(network(inputs)[0], outputs)
    outputs.square().sum().backward()
    for found, wanted in zip(zip(down, up, strict=True), factors, strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert other.grad is not None and other.grad.abs().max() > 0
            torch.testing.assert_close(one.grad, other.grad)


def test_only_matrices_that_factors_are_smaller_than_are_adapted(table: Any) -> None:
    task = table(rank=1)
    assert [*task.adapter.matrices] == ["0.weight"]  # (8, 3), and the other is (1, 8)
    assert [value.requires_grad for value in task.model.parameters()] == [True, False, False, False]
    with pytest.raises(UserError, match=r"adapt\.rank is 3, too large"):
        table(rank=3)


def test_forked_workers_see_every_merge(table: Any) -> None:
    tasks = [table(dropout=0.0, rank=1) for _ in range(2)]
    plain, forked = Single(tasks[0], CONFIG), Forked(tasks[1], CONFIG)
    try:
        for step in range(1, 5):
            wanted, found = (one.update(step, [np.arange(8)], 8, 0.05) for one in (plain, forked))
            assert float(found.loss) == pytest.approx(float(wanted.loss), rel=1e-5)
        for one, other in zip(tasks[0].model.parameters(), tasks[1].model.parameters(), strict=True):
            torch.testing.assert_close(one, other)
        with plain.averaged(), forked.averaged():
            assert forked.validate() == pytest.approx(plain.validate())
    finally:
        forked.close()


def test_averaged_weights_are_those_of_averaged_factors(table: Any) -> None:
    task = table(rank=1)
    strategy = Single(task, CONFIG)
    first = task.model[0].weight.detach().clone()
    for step in range(1, 9):
        strategy.update(step, [np.arange(8)], 8, 0.05)
    last = task.model[0].weight.detach().clone()
    down, up = (strategy.average.shadow[name] for name in ("down.0", "up.0"))
    with strategy.averaged():
        torch.testing.assert_close(task.model[0].weight, first + up @ down)
        assert not torch.equal(task.model[0].weight, last)
    assert torch.equal(task.model[0].weight, last)
    assert torch.equal(task.model[3].weight, table().model[3].weight)


@pytest.mark.parametrize("at", [4, 10])
def test_a_run_that_is_cut_off_goes_on_to_the_same_bits(
    table: Any, trainer: Callable[..., Any], watcher: Any, cut: Any, tmp_path: Path, at: int
) -> None:
    trainer(whole := table(rank=1), "whole", max_steps=12).run()
    with pytest.raises(cut[0]):
        trainer(table(rank=1), "cut", watcher(at, cut[1]), max_steps=12).run()
    trainer(resumed := table(rank=1), "cut", max_steps=12).run(resume=True)
    assert all(map(torch.equal, whole.model.parameters(), resumed.model.parameters()))
    files = [load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("whole", "cut")]
    assert [*files[0]] == ["A.0.weight", "B.0.weight"] and all(
        torch.equal(files[0][key], files[1][key]) for key in files[0]
    )
    with pytest.raises(UserError, match="names no base"):
        read_weights(tmp_path / "cut" / "model.safetensors")
