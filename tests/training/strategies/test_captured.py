"""What of captured updates can be tested without a GPU; `tests/gpu/test_gpu_packed.py` has the rest."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.data.io.token_rows import ParallelBatch
from harken.training.config import TrainConfig
from harken.training.optimizers import build_optimizer, use_device_rate
from harken.training.strategies.base import StepResult, seed_step
from harken.training.strategies.captured import Captured, shapes_of, tensors_of
from harken.training.strategies.single import Single


class Batch(NamedTuple):
    ids: Tensor
    rest: dict[str, Tensor]
    indices: np.ndarray


def batch(size: int) -> Batch:
    return Batch(torch.zeros(size), {"a": torch.ones(2, size)}, np.arange(size))


def test_tensors_are_found_in_order() -> None:
    found = tensors_of([batch(3), torch.zeros(5)])
    assert [tuple(tensor.shape) for tensor in found] == [(3,), (2, 3), (5,)]


def test_tensors_of_a_dataclass_count() -> None:
    short, long = (ParallelBatch(*(torch.zeros(2, size) for _ in range(5))) for size in (3, 4))
    assert len(tensors_of((short, np.arange(2)))) == 5
    assert shapes_of((short, 1)) != shapes_of((long, 1))


def test_a_graph_depends_on_the_shapes_alone() -> None:
    assert shapes_of(batch(3)) == shapes_of(batch(3)) != shapes_of(batch(4))
    assert shapes_of(torch.zeros(3)) != shapes_of(torch.zeros(3, dtype=torch.int32))
    assert hash(shapes_of(batch(3))) == hash(shapes_of(batch(3)))


@pytest.mark.parametrize(
    ("device", "static", "wanted"), [("cuda", 4, True), ("cpu", 4, False), ("cuda", 0, False), ("cuda", None, False)]
)
def test_only_static_batches_on_a_gpu_are_captured(device: str, static: int | None, wanted: bool) -> None:
    task: Any = SimpleNamespace() if static is None else SimpleNamespace(static_shapes=static)
    assert Captured.is_supported(task, TrainConfig(max_steps=1, device=device)) is wanted


def test_the_rate_can_be_a_tensor() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(model, TrainConfig(max_steps=1, optimizer="muon"))
    rate = torch.tensor(0.1)
    use_device_rate(optimizer, rate)
    assert all(group["lr"] is rate for group in optimizer.param_groups)


class CapturedOnCpu(Captured):
    """What is captured on a GPU, computed at once on a CPU."""

    def __init__(self, task: Any, config: TrainConfig) -> None:
        Single.__init__(self, task, config)
        self.parameters = list(task.model.parameters())
        self.rate, self.inverse = torch.zeros(2).unbind()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate

    def update(self, step: int, batches: list[Any], num_tokens: int, rate: float) -> StepResult:
        seed_step(self.config.seed, step, 0)
        self.rate.fill_(rate)
        self.inverse.fill_(1 / num_tokens)
        loss, norm, skipped = self.compute([self.collate(indices) for indices in batches])
        self.average.update(step)
        return StepResult(loss, norm, skipped)


@pytest.mark.parametrize("clip", [0.05, None])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_captured_update_is_the_plain_one(table: Any, clip: float | None, optimizer: str) -> None:
    options = {"max_steps": 9, "clip_norm": clip, "device": "cpu", "precision": "float32", "optimizer": optimizer}
    config = TrainConfig(**options, average=0.9, weight_decay=0.1)
    plain, captured = Single(table(), config), CapturedOnCpu(table(), config)
    epoch = plain.task.epoch(0)
    for step in range(1, 6):
        chosen = [epoch[step % 3], epoch[step % 5]]  # two accumulated batches
        wanted, found = (one.update(step, chosen, 8, 0.01) for one in (plain, captured))
        assert float(found.loss) == pytest.approx(float(wanted.loss), rel=1e-5)
        assert float(found.norm) == pytest.approx(float(wanted.norm), rel=1e-5)
    for name, value in plain.state().items():
        torch.testing.assert_close(captured.state()[name], value, rtol=1e-4, atol=1e-6)


def test_a_captured_update_with_nan_changes_nothing(table: Any) -> None:
    strategy = CapturedOnCpu(table(), TrainConfig(max_steps=9, device="cpu", precision="float32", average=0.0))
    task: Any = strategy.task
    batch = task.epoch(0)[0]
    strategy.update(1, [batch], 4, 0.01)
    before = {name: value.clone() for name, value in strategy.state().items()}
    task.inputs[batch[0]] = torch.nan
    assert bool(strategy.update(2, [batch], 4, 0.01).skipped)
    assert all(torch.equal(value, before[name]) for name, value in strategy.state().items())
    task.inputs[batch[0]] = 0.0
    assert not bool(strategy.update(3, [batch], 4, 0.01).skipped)


def test_what_comes_again_is_captured_and_only_static_batches_are(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = CapturedOnCpu(table(), TrainConfig(max_steps=9, device="cpu", precision="float32"))
    task: Any = strategy.task
    task.is_static = lambda batch: len(batch) < 4
    strategy.graphs, strategy.seen, strategy.most_graphs = {}, set(), 2
    captured: list[int] = []

    def capture(collated: list[Any]) -> Any:
        captured.append(len(collated[0]))
        if captured[-1] == 3:
            raise RuntimeError("operation not permitted when stream is capturing")
        return object()

    monkeypatch.setattr(strategy, "capture", capture)
    one, two, three, four = (torch.zeros(size) for size in (1, 2, 3, 4))
    assert [strategy.graph_of([batch]) for batch in (two, four, four, four)] == [None] * 4
    graph = strategy.graph_of([two])
    assert graph is not None and strategy.graph_of([two]) is graph and captured == [2]
    assert strategy.graph_of([three]) is None
    with pytest.warns(UserWarning, match="run kernel by kernel: operation not permitted"):
        assert strategy.graph_of([three]) is None
    assert strategy.graph_of([one]) is None and strategy.graph_of([one]) is None
    assert captured == [2, 3] and strategy.graph_of([two]) is graph


def test_batches_come_from_the_prefetcher(table: Any) -> None:
    strategy = CapturedOnCpu(table(), TrainConfig(max_steps=9, device="cpu", precision="float32"))
    indices = np.array([3, 1])
    assert strategy.collate(indices).tolist() == [3, 1]
    strategy.task.prefetcher = SimpleNamespace(take=lambda share: ("taken", share.tolist()))  # type: ignore[attr-defined]
    assert strategy.collate(indices) == ("taken", [3, 1])
