"""What of captured updates can be tested without a GPU; `tests/gpu/test_gpu_packed.py` has the rest."""

import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.data.io.token_rows import ParallelBatch
from harken.training.config import TrainConfig
from harken.training.optimizers import build_optimizer, use_device_rate
from harken.training.strategies import distributed
from harken.training.strategies.base import Single, StepResult
from harken.training.strategies.captured import (
    CAPTURED,
    Captured,
    CapturedReplicas,
    CapturedUpdates,
    shapes_of,
)
from harken.training.strategies.distributed import Replicated
from harken.training.strategies.group import Group
from harken.training.task import tensors_of


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
    ("device", "static", "wanted"),
    [("cuda", 4, True), ("cuda", 99, True), ("cpu", 4, False), ("cuda", 0, False), ("cuda", None, False)],
)
def test_only_static_batches_on_a_gpu_are_captured(device: str, static: int | None, wanted: bool) -> None:
    task: Any = SimpleNamespace() if static is None else SimpleNamespace(static_shapes=static)
    assert CAPTURED.supports(task, TrainConfig(max_steps=1, device=device)) is wanted
    accumulates = CAPTURED.supports(task, TrainConfig(max_steps=1, device=device, accumulate=2))
    assert accumulates is (wanted and static == 4)  # many shapes hardly ever come together again


def test_the_rate_can_be_a_tensor() -> None:
    model = torch.nn.Linear(2, 2)
    optimizer = build_optimizer(model, TrainConfig(max_steps=1, optimizer="muon"))
    rate = torch.tensor(0.1)
    use_device_rate(optimizer, rate)
    assert all(group["lr"] is rate for group in optimizer.param_groups)


class OnCpu(CapturedUpdates):
    """What is captured on a GPU, computed at once on a CPU."""

    def prepare_device(self) -> None:
        for group in self.optimizer.param_groups:
            group["capturable"] = False

    def graph_of(self, collated: list[Any]) -> None:
        return None

    def on_stream(self, collated: list[Any]) -> Tensor:
        return self.compute(collated)

    def result(self, numbers: Tensor) -> StepResult:
        return StepResult(*numbers)


class CapturedOnCpu(OnCpu, Captured):
    pass


class ReplicasOnCpu(OnCpu, CapturedReplicas):
    pass


class ReplayedOnCpu(ReplicasOnCpu):
    """Even ranks have a graph that is computed when it is replayed, odd ones have none."""

    def graph_of(self, collated: list[Any]) -> Any:
        return "a graph" if self.rank % 2 == 0 else None

    def replay(self, graph: Any, collated: list[Any]) -> Tensor:
        task: Any = self.task
        task.static_loss = lambda model, batch: task.loss(model, batch)[0]
        return self.captured_part(collated)


@pytest.mark.parametrize("clip", [0.05, None])
@pytest.mark.parametrize(("optimizer", "rank"), [("adamw", 0), ("muon", 0), ("adamw", 1)])
def test_a_captured_update_is_the_plain_one(table: Any, clip: float | None, optimizer: str, rank: int) -> None:
    options = {"max_steps": 9, "clip_norm": clip, "device": "cpu", "precision": "float32", "optimizer": optimizer}
    config = TrainConfig(**options, average=0.9, weight_decay=0.1)
    plain, captured = Single(table(rank=rank), config), CapturedOnCpu(table(rank=rank), config)
    epoch = plain.task.epoch(0)
    for step in range(1, 6):
        chosen = [epoch[step % 3], epoch[step % 5]]  # two accumulated batches
        wanted, found = (one.update(step, chosen, 8, 0.01) for one in (plain, captured))
        assert float(found.loss) == pytest.approx(float(wanted.loss), rel=1e-5)
        assert float(found.norm) == pytest.approx(float(wanted.norm), rel=1e-5)
    for name, value in {**plain.state(), **plain.task.model.state_dict()}.items():
        twin = {**captured.state(), **captured.task.model.state_dict()}[name]
        torch.testing.assert_close(twin, value, rtol=1e-4, atol=1e-6)


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
    strategy.graphs = strategy.graph_cache(2)
    captured: list[int] = []

    def capture(collated: list[Any]) -> Any:
        captured.append(len(collated[0]))
        if captured[-1] == 3:
            raise RuntimeError("operation not permitted when stream is capturing")
        return object()

    monkeypatch.setattr(strategy, "capture", capture)
    graph_of = partial(CapturedUpdates.graph_of, strategy)
    one, two, three, four = (torch.zeros(size) for size in (1, 2, 3, 4))
    assert [graph_of([batch]) for batch in (two, four, four, four)] == [None] * 4
    graph = graph_of([two])
    assert graph is not None and graph_of([two]) is graph and captured == [2]
    assert graph_of([three]) is None
    with pytest.warns(UserWarning, match="run kernel by kernel: operation not permitted"):
        assert graph_of([three]) is None
    assert graph_of([three]) is None and captured == [2, 3]
    assert graph_of([two]) is not graph and captured == [2, 3, 2]  # its random numbers would not be seeded any more
    assert graph_of([one]) is None and graph_of([one]) is not None and len(strategy.graphs) == 2


@pytest.mark.parametrize(("world_size", "rank"), [(2, 0), (3, 0), (2, 1)])
def test_captured_replicas_are_the_plain_ones(
    table: Any, ranks: Callable, world_size: int, rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a rank has no share: of the second batch with three ranks."""
    monkeypatch.setattr(distributed, "BUCKET", 64)
    batches = [[np.array([0, 1, 2, 3, 4]), np.array([5, 6, 7])], [np.array([8, 9])], [np.array([2, 5, 11, 12])]]
    config = TrainConfig(max_steps=9, clip_norm=0.05, device="cpu", precision="float32", average=0.9)

    def run(strategy: Any) -> Any:
        found = [strategy.update(step, chosen, 7, 0.01) for step, chosen in enumerate(batches, start=1)]
        tensors = [*strategy.state().values(), *strategy.task.model.parameters()]
        return [[float(one.loss), float(one.norm)] for one in found], [value.tolist() for value in tensors]

    def task() -> Any:
        return table(dropout=0.0, rank=rank)

    numbers, weights = run(Single(task(), config))
    for kind in (Replicated, ReplicasOnCpu, ReplayedOnCpu):
        for outcome in ranks(world_size, lambda group, kind=kind: run(kind(task(), config, group))):
            np.testing.assert_allclose(outcome["value"][0], numbers, rtol=1e-5)
            for found, wanted in zip(outcome["value"][1], weights, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_rank_that_runs_out_of_memory_and_others_with_graphs_agree(table: Any, ranks: Callable) -> None:
    config = TrainConfig(max_steps=9, device="cpu", precision="float32", average=0.0)
    batch = np.arange(8)

    def run(strategy: Any) -> list[float]:
        return [float(strategy.update(step, [batch], 8, 0.01).loss) for step in range(1, 5)]

    def body(group: Group) -> Any:
        task = table(dropout=0.0)
        strategy = ReplayedOnCpu(task, config, group)  # rank 0 has graphs
        plain, failed = task.loss, []

        def loss(model: Any, chosen: Any) -> Any:
            if group.rank == 1 and len(chosen) > 2:
                failed.append(len(chosen))
                raise torch.OutOfMemoryError("CUDA out of memory")
            return plain(model, chosen)

        monkeypatch = pytest.MonkeyPatch()
        monkeypatch.setattr(task, "loss", loss)
        monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "memory ran out, so updates are not captured any more")
            losses = run(strategy)
        result = strategy.update(5, [batch], 8, 0.01)  # read when the next update runs, on all ranks alike
        return losses, strategy.captures, len(failed), isinstance(result.loss, Tensor)

    first, second = (outcome["value"] for outcome in ranks(2, body))
    wanted = run(Single(table(dropout=0.0), config))
    assert first[0] == pytest.approx(wanted, rel=1e-5)
    assert second[0] == pytest.approx(wanted, rel=1e-5)
    assert first[1] and not second[1] and second[2] == 6  # once with a graph, then at every step before it is divided
    assert first[3] and second[3]


def test_memory_that_runs_out_after_the_gradients_ends_the_run(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = CapturedOnCpu(table(), TrainConfig(max_steps=9, device="cpu", precision="float32"))

    def fails() -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(strategy.optimizer, "step", fails)
    with pytest.raises(torch.OutOfMemoryError):  # a second attempt could apply a part of the update twice
        strategy.update(1, [np.arange(4)], 4, 0.01)
    assert strategy.captures


def test_batches_come_from_the_prefetcher(table: Any) -> None:
    strategy = CapturedOnCpu(table(), TrainConfig(max_steps=9, device="cpu", precision="float32"))
    indices = np.array([3, 1])
    assert strategy.collate(indices).tolist() == [3, 1]
    strategy.prefetcher = SimpleNamespace(take=lambda share: ("taken", share.tolist()))  # type: ignore[assignment]
    assert strategy.collate(indices) == ("taken", [3, 1])
