"""What a task carries from batch to batch: seen by the worker that wrote it, and there again after a cut."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from harken.training.checkpoints import load_checkpoint
from harken.training.task import persistent_state

STREAMS, STEPS = 4, 6


class EchoTask:
    """Streams of numbers; the loss of a step depends on what its stream has seen, in this worker or in the last run."""

    monitor, mode = "loss", "min"

    def __init__(self) -> None:
        self.values = torch.tensor(np.random.default_rng(3).normal(size=(STEPS, STREAMS)), dtype=torch.float32)
        torch.manual_seed(5)
        self.model = nn.Linear(2, 1)
        self.carried = {"memory": torch.zeros(STREAMS)}

    def epoch(self, number: int) -> Sequence[np.ndarray]:
        return [step * STREAMS + np.arange(STREAMS) for step in range(STEPS)]

    def size(self, examples: np.ndarray) -> int:
        return len(examples)

    def share(self, examples: np.ndarray, parts: int) -> list[np.ndarray]:
        return [examples[examples % STREAMS % parts == part] for part in range(parts)]

    def collate(self, indices: np.ndarray) -> np.ndarray:
        return indices

    def loss(self, model: nn.Module, examples: np.ndarray) -> tuple[Tensor, int]:
        step, streams = int(examples[0]) // STREAMS, torch.from_numpy(examples % STREAMS)
        value, memory = self.values[step, streams], self.carried["memory"]
        made = self.model(torch.stack((value, memory[streams]), 1))[:, 0]
        memory[streams] = torch.tanh(memory[streams] + made.detach())
        return (made - value).square().sum(), len(examples)

    def validate(self, part: int, parts: int) -> Any:
        return float(self.model.weight.abs().sum()) if part == 0 else 0.0

    def score(self, results: list[Any]) -> dict[str, float]:
        return {"loss": sum(results)}


def tensors(folder: Path) -> dict[str, Tensor]:
    found = load_checkpoint(folder)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("step", [4, 8])
def test_a_cut_run_ends_as_one_that_was_not(
    trainer: Callable, watcher: Any, cut: Any, tmp_path: Path, workers: int, step: int
) -> None:
    settings = {"max_steps": 15, "workers": workers}
    trainer(EchoTask(), "whole", **settings).run()
    power_cut, action = cut
    with pytest.raises(power_cut):
        trainer(EchoTask(), "cut", watcher(step, action), **settings).run()
    trainer(EchoTask(), "cut", **settings).run(resume=True)
    whole, resumed = tensors(tmp_path / "whole"), tensors(tmp_path / "cut")
    assert whole.keys() == resumed.keys()
    assert whole["carried.memory"].abs().min() > 0
    for name, value in whole.items():
        assert torch.equal(value, resumed[name]), name


def test_two_workers_carry_what_one_does(trainer: Callable, tmp_path: Path) -> None:
    for workers in (1, 2):
        trainer(EchoTask(), f"of{workers}", max_steps=15, workers=workers).run()
    one, two = (tensors(tmp_path / f"of{workers}")["carried.memory"] for workers in (1, 2))
    assert torch.allclose(one, two, atol=1e-5)


def test_a_task_may_carry_nothing(table: Any) -> None:
    assert persistent_state(table()) == {}
