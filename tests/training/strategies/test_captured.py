"""What of captured updates can be tested without a GPU; `tests/gpu/test_gpu_packed.py` has the rest."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.training.config import TrainConfig
from harken.training.optimizers import build_optimizer, use_device_rate
from harken.training.strategies.captured import Captured, shapes_of, tensors_of


class Batch(NamedTuple):
    ids: Tensor
    rest: dict[str, Tensor]
    indices: np.ndarray


def batch(size: int) -> Batch:
    return Batch(torch.zeros(size), {"a": torch.ones(2, size)}, np.arange(size))


def test_tensors_are_found_in_order() -> None:
    found = tensors_of([batch(3), torch.zeros(5)])
    assert [tuple(tensor.shape) for tensor in found] == [(3,), (2, 3), (5,)]


def test_a_graph_depends_on_the_shapes_alone() -> None:
    assert shapes_of(batch(3)) == shapes_of(batch(3)) != shapes_of(batch(4))
    assert shapes_of(torch.zeros(3)) != shapes_of(torch.zeros(3, dtype=torch.int32))
    assert hash(shapes_of(batch(3))) == hash(shapes_of(batch(3)))


@pytest.mark.parametrize(
    ("device", "static", "wanted"), [("cuda", True, True), ("cpu", True, False), ("cuda", None, False)]
)
def test_only_static_batches_on_a_gpu_are_captured(device: str, static: bool | None, wanted: bool) -> None:
    task: Any = SimpleNamespace() if static is None else SimpleNamespace(static_batches=static)
    assert Captured.is_supported(task, TrainConfig(max_steps=1, device=device)) is wanted


def test_the_rate_can_be_a_tensor() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(model, TrainConfig(max_steps=1, optimizer="muon"))
    rate = torch.tensor(0.1)
    use_device_rate(optimizer, rate)
    assert all(group["lr"] is rate for group in optimizer.param_groups)
