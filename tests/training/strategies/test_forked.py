"""Several processes share a batch: the gradients of one, the same to the bit every time, no hanging when one dies."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from harken.errors import MachineError
from harken.training.config import TrainConfig
from harken.training.strategies.base import Single, seed_step
from harken.training.strategies.forked import Forked, shared_like

BATCHES = [np.arange(0, 7), np.arange(7, 12)]


def strategy(task: Any, count: int, seed: int = 1) -> Any:
    config = TrainConfig(workers=count, seed=seed, device="cpu", precision="float32", max_steps=1)
    return Forked(task, config) if count > 1 else Single(task, config)


def gradients(task: Any, count: int, step: int = 1, seed: int = 3) -> tuple[float, list[Tensor]]:
    workers = strategy(task, count, seed)
    try:
        loss = workers.backward(step, BATCHES, 12)
        return loss, [parameter.grad.clone() for parameter in task.model.parameters()]
    finally:
        workers.close()


@pytest.mark.parametrize("count", [2, 3])
def test_gradients_are_those_of_one_process(table: Any, count: int) -> None:
    loss, found = gradients(table(dropout=0.0), 1)
    shared_loss, shared = gradients(table(dropout=0.0), count)
    assert shared_loss == pytest.approx(loss, rel=1e-5)
    for one, other in zip(found, shared, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    task = table(dropout=0.0)
    (task.summed(np.arange(12)) / 12).backward()
    for parameter, one in zip(task.model.parameters(), found, strict=True):
        torch.testing.assert_close(parameter.grad, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1, 2])
def test_dropout_is_repeatable_to_the_bit(table: Any, count: int) -> None:
    first, again = gradients(table(), count), gradients(table(), count)
    assert first[0] == again[0]
    assert all(torch.equal(one, other) for one, other in zip(first[1], again[1], strict=True))
    for other in (gradients(table(), count, step=2), gradients(table(), count, seed=4)):
        assert first[0] != other[0]


def test_a_batch_smaller_than_the_workers(table: Any) -> None:
    task = table(dropout=0.0)
    workers = strategy(task, 3)
    try:
        loss = workers.backward(1, [np.array([5])], 1)
    finally:
        workers.close()
    assert loss == pytest.approx(task.summed(np.array([5])).item())


def test_an_update_of_the_first_is_seen_by_all(table: Any) -> None:
    task = table(dropout=0.0)
    workers = strategy(task, 2)
    try:
        with torch.no_grad():
            for parameter in task.model.parameters():
                parameter.zero_()
        loss = workers.backward(1, BATCHES, 12)
        score = workers.validate()
    finally:
        workers.close()
    assert loss == pytest.approx(float((task.outputs[:12] ** 2).sum()), rel=1e-5)
    assert score["loss"] == pytest.approx(float((task.outputs[24:] ** 2).mean()), rel=1e-5)


def test_threads_are_those_of_the_recipe_in_every_worker(table: Any) -> None:
    class Counting(table):
        def validate(self, part: int, parts: int) -> Any:
            return torch.get_num_threads()

        def score(self, results: list[Any]) -> dict[str, float]:
            return {f"worker {part}": result for part, result in enumerate(results)}

    before = torch.get_num_threads()
    workers = Forked(Counting(), TrainConfig(workers=2, threads=3, device="cpu", precision="float32", max_steps=1))
    try:
        assert workers.validate() == {"worker 0": 3, "worker 1": 3}
    finally:
        workers.close()
        torch.set_num_threads(before)


def test_closing_ends_the_processes(table: Any) -> None:
    workers = strategy(table(), 3)
    processes = list(workers.processes)
    assert len(processes) == 2 and all(process.is_alive() for process in processes)
    workers.close()
    assert not any(process.is_alive() for process in processes)
    workers.close()


def test_a_failing_worker_is_told_with_its_traceback(table: Any) -> None:
    parent = os.getpid()

    class Failing(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            if os.getpid() != parent:
                raise ValueError("row 17 is bad")
            return super().summed(examples)

    workers = strategy(Failing(), 2)
    try:
        with pytest.raises(RuntimeError, match=r"(?s)a training worker failed:\nTraceback.*ValueError: row 17 is bad"):
            workers.backward(1, BATCHES, 12)
    finally:
        workers.close()


@pytest.mark.parametrize("when", ["before", "during", "unread", "validation"])
def test_a_killed_worker_is_an_error_and_no_wait(table: Any, when: str) -> None:
    parent = os.getpid()

    class Dying(table):
        def summed(self, examples: np.ndarray) -> Tensor:
            if os.getpid() != parent and when == "during":
                os.kill(os.getpid(), signal.SIGKILL)
            if os.getpid() == parent and when == "unread":
                os.kill(workers.processes[0].pid, signal.SIGKILL)
            return super().summed(examples)

    workers = strategy(Dying(), 2)
    try:
        if when == "unread":  # it has got its share and will never look at it
            os.kill(workers.processes[0].pid, signal.SIGSTOP)
        elif when != "during":
            os.kill(workers.processes[0].pid, signal.SIGKILL)
            workers.processes[0].join()
        started = time.monotonic()
        with pytest.raises(MachineError, match="a training worker was killed, usually because the machine ran out"):
            if when == "validation":
                workers.validate()
            else:
                workers.backward(1, BATCHES, 12)
        assert time.monotonic() - started < 240  # without the check it would wait for ever
    finally:
        workers.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_worker_leaves_signals_to_its_parent(table: Any, number: int) -> None:
    workers = strategy(table(), 2)
    try:
        workers.backward(1, BATCHES, 12)  # so that it is surely waiting for work
        os.kill(workers.processes[0].pid, number)
        workers.backward(2, BATCHES, 12)
        assert workers.processes[0].is_alive()
    finally:
        workers.close()


def test_random_numbers_are_a_function_of_seed_step_and_worker() -> None:
    drawn = []
    for key in [(1, 1, 0), (1, 1, 1), (1, 2, 0), (2, 1, 0), (1, 1, 0)]:
        seed_step(*key)
        drawn.append(float(torch.rand(())))
    assert drawn[0] == drawn[4]
    assert len(set(drawn[:4])) == 4


def test_shared_memory_keeps_shapes_and_kinds() -> None:
    tensors = [torch.randn(3, 5), torch.zeros(1), torch.ones(7, dtype=torch.bfloat16)]
    shared = shared_like(tensors)
    assert [(t.shape, t.dtype) for t in shared] == [(t.shape, t.dtype) for t in tensors]
    for one, other in zip(shared, tensors, strict=True):
        one.copy_(other)
    assert all(torch.equal(one, other) for one, other in zip(shared, tensors, strict=True))


def test_no_file_is_left_behind(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gradients(table(), 2)
    assert list(tmp_path.iterdir()) == []
