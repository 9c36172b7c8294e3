"""A task that has nothing to do with text: a table of numbers, and a small network that is to predict one column."""

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from harken.training.adapter import Adapter
from harken.training.config import TrainConfig
from harken.training.display import NullDisplay, Throughput
from harken.training.loop import Trainer
from harken.training.strategies.group import Group, joined

ROWS = 24


class TableTask:
    """Regression with dropout: y = x W + noise, 24 rows to train on and 8 to validate on."""

    monitor = "loss"
    mode = "min"

    def __init__(self, dropout: float = 0.2, batch: int = 4, shuffled: bool = True, rank: int = 0) -> None:
        numbers = np.random.default_rng(7)
        self.inputs = torch.tensor(numbers.normal(size=(ROWS + 8, 3)), dtype=torch.float32)
        self.outputs = self.inputs @ torch.tensor([1.0, -2.0, 0.5]) + 0.1
        self.batch, self.shuffled = batch, shuffled
        torch.manual_seed(11)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
        self.adapter = Adapter(self.model, rank, "no file") if rank else None

    def epoch(self, number: int) -> Sequence[np.ndarray]:
        order = np.random.default_rng(number).permutation(ROWS) if self.shuffled else np.arange(ROWS)
        return [order[start : start + self.batch] for start in range(0, ROWS, self.batch)]

    def size(self, examples: np.ndarray) -> int:
        return len(examples)

    def share(self, examples: np.ndarray, parts: int) -> list[np.ndarray]:
        return [examples[part::parts] for part in range(parts)]

    def collate(self, indices: np.ndarray) -> np.ndarray:
        return indices

    def loss(self, model: nn.Module, batch: np.ndarray) -> tuple[Tensor, int]:
        return self.summed(batch), len(batch)

    def summed(self, examples: np.ndarray) -> Tensor:
        chosen = torch.from_numpy(np.array(examples))
        return ((self.model(self.inputs[chosen])[:, 0] - self.outputs[chosen]) ** 2).sum()

    def validate(self, part: int, parts: int) -> Any:
        return float(self.summed(np.arange(ROWS, ROWS + 8)[part::parts]))

    def score(self, results: list[Any]) -> dict[str, float]:
        return {"loss": sum(results) / 8}


class PowerCut(Exception):
    """What stands for a kill inside one process."""


class Watcher(NullDisplay):
    """A display that remembers what it was shown, and can do something at a step."""

    def __init__(self, at: int = 0, action: Callable[[], Any] | None = None) -> None:
        self.at, self.action = at, action
        self.steps: list[tuple[int, float, float, float, float]] = []
        self.notes: list[str] = []
        self.started: list[tuple[str, float]] = []

    def start(self, description: str, progress: float) -> None:
        self.started.append((description, progress))

    def step(self, step: int, progress: float, loss: float, rate: float, speed: Throughput) -> None:
        self.steps.append((step, progress, loss, rate, speed.tokens))
        if self.action and step == self.at:
            self.action()

    def log(self, text: str) -> None:
        self.notes.append(text)


def power_cut() -> None:
    raise PowerCut


@pytest.fixture
def table() -> type[TableTask]:
    return TableTask


@pytest.fixture
def watcher() -> type[Watcher]:
    return Watcher


@pytest.fixture
def cut() -> tuple[type[PowerCut], Callable[[], None]]:
    return PowerCut, power_cut


@pytest.fixture
def trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Trainer]:
    """A trainer of a task, in a folder below `tmp_path`; settings are those of `[train]`."""
    monkeypatch.setattr(os, "fsync", lambda file: None)  # no disk is waited for: these runs save hundreds of times

    def build(task: Any, folder: str = "run", display: Any = None, **settings: Any) -> Trainer:
        defaults = {
            "learning_rate": 0.05,
            "schedule": "constant",
            "warmup_steps": 0,
            "validate_every": 5,
            "checkpoint_every": 3,
            "log_every": 2,
            "device": "cpu",
            "precision": "float32",
            "workers": 1,
            "threads": 1,
        }
        path = tmp_path / folder
        path.mkdir(exist_ok=True)
        return Trainer(task, TrainConfig(**{**defaults, **settings}), path, display)

    return build


Outcome = dict[str, Any]  # "value", or "error" and "message"; {} of a process that was killed


def run_ranks(
    world_size: int, body: Callable[[Group], Any], device: str = "cpu", timeout: float = 120
) -> list[Outcome]:
    """What `body` returns or raises in each of some forked processes; kills them after `timeout` seconds."""
    port, store_ends = _start_store()
    pipes, processes = [], []
    for rank in range(world_size):
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reads)
            _be_rank(rank, world_size, port, body, writes)
        os.close(writes)
        pipes.append(reads)
        processes.append(child)
    signal.signal(signal.SIGALRM, lambda *_: [os.kill(child, signal.SIGKILL) for child in processes])
    signal.setitimer(signal.ITIMER_REAL, timeout)
    try:
        found = [json.loads(_read(reads) or "{}") for reads in pipes]
        for child in processes:
            os.waitpid(child, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        store_ends()
    return found


def _start_store() -> tuple[int, Callable[[], None]]:
    """The port of a store as torchrun has one, and what ends it.

    It is in a process of its own: a rank that is forked beside the store's thread may inherit a lock that it holds.
    """
    reads, writes = os.pipe()
    waits, ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        os.write(writes, str(store.port).encode())
        os.close(writes)
        os.read(waits, 1)  # until the parent ends it, or dies
        os._exit(0)
    os.close(writes)
    os.close(waits)
    port = int(_read(reads))

    def end() -> None:
        os.close(ends)
        os.waitpid(child, 0)

    return port, end


def _be_rank(rank: int, world_size: int, port: int, body: Callable[[Group], Any], writes: int) -> None:
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True",
    }  # fmt: skip
    outcome: Outcome
    try:
        with joined() as group:
            assert group is not None
            group.connect("cpu")
            outcome = {"value": body(group)}
    except BaseException as problem:
        if os.environ.get("HARKEN_DEBUG"):
            traceback.print_exc(file=sys.__stderr__)
        outcome = {"error": type(problem).__name__, "message": str(problem)}
    os.write(writes, json.dumps(outcome).encode())
    os._exit(0)


def _read(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as lines:
        return lines.read()


@pytest.fixture
def ranks() -> Callable[..., list[Outcome]]:
    """Run a function in forked processes that are ranks of one job, as torchrun would start them, on gloo."""
    return run_ranks
