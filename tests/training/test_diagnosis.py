"""An update that goes wrong: the layer is named, its batch is kept, memory that runs out costs time alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from harken.training.config import TrainConfig
from harken.training.log import read_metrics
from harken.training.strategies import choose_strategy


class Square(nn.Module):
    """Infinite for inputs above 1e20."""

    def forward(self, values: Tensor) -> Tensor:
        return values**2


def events(folder: Path) -> list[str]:
    return [entry["event"] for entry in read_metrics(folder) if entry["kind"] == "event"]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_layer_of_a_nan_is_named_and_its_batch_kept(
    trainer: Callable, table: Any, watcher: Any, tmp_path: Path, workers: int
) -> None:
    task, display = table(dropout=0.0, shuffled=False), watcher()
    task.model[1] = Square()
    task.inputs[5] = 1e25  # of the second batch, in the first share of one worker and the second of two
    trainer(task, display=display, max_steps=3, workers=workers).run()
    said = "update 2 was skipped: the output of 1 (Square) is NaN or infinite, what goes into it is finite"
    assert events(tmp_path / "run") == [f"{said}; the batch is kept in nonfinite-step-2.safetensors"]
    assert any(said in note for note in display.notes)
    kept = load_file(tmp_path / "run" / "nonfinite-step-2.safetensors")
    assert kept["indices"].tolist() == ([4, 5, 6, 7] if workers == 1 else [5, 7])
    assert json.loads((tmp_path / "run" / "nonfinite-step-2.json").read_text())["found"] in said


def test_a_gradient_that_is_not_finite_is_named(trainer: Callable, table: Any, tmp_path: Path) -> None:
    class Root(nn.Module):
        def forward(self, values: Tensor) -> Tensor:
            return (values * 0).sqrt() + values  # finite, but the gradient is 0 * inf

    task = table(dropout=0.0)
    task.model.insert(1, Root())
    trainer(task, max_steps=1).run()
    assert events(tmp_path / "run")[0].startswith(
        "update 1 was skipped: the loss is finite, the gradient of '0.bias' is NaN or infinite"
    )


class Small:
    """A machine with memory for so many rows."""

    def __init__(self, task: Any, rows: int, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.rows, self.seen, self.summed, self.error = rows, list[int](), task.summed, error
        task.summed = self

    def __call__(self, examples: np.ndarray) -> Tensor:
        self.seen.append(len(examples))
        if torch.is_grad_enabled() and len(examples) > self.rows:
            raise self.error("out of memory")
        return self.summed(examples)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_a_step_that_does_not_fit_is_computed_in_parts(
    trainer: Callable, table: Any, watcher: Any, tmp_path: Path, error: type[Exception]
) -> None:
    whole, parts, display = table(dropout=0.0, batch=8), table(dropout=0.0, batch=8), watcher()
    small = Small(parts, 3, error)
    trainer(whole, "whole", max_steps=4).run()
    trainer(parts, "parts", display, max_steps=4).run()
    assert small.seen[:6] == [8, 4, 2, 2, 2, 2]
    for one, other in zip(whole.model.parameters(), parts.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    assert len(events(tmp_path / "parts")) == 1 and "the batch was computed in 4 parts" in events(tmp_path / "parts")[0]


def test_one_row_that_does_not_fit_ends_the_run(trainer: Callable, table: Any) -> None:
    from harken.errors import MachineError

    task = table(dropout=0.0)
    Small(task, 0)
    with pytest.raises(MachineError, match=r"this machine ran out of memory at step 1; lower train\.batch_tokens"):
        trainer(task, max_steps=2).run()


def test_carried_states_are_those_before_the_step_when_it_is_repeated() -> None:
    class Counting:
        """Every loss adds 1 to what is carried; memory runs out after that."""

        monitor, mode = "loss", "min"

        def __init__(self) -> None:
            self.model, self.carried, self.calls = nn.Linear(1, 1), {"seen": torch.zeros(4)}, 0

        def share(self, examples: np.ndarray, parts: int) -> list[np.ndarray]:
            return np.array_split(examples, parts)

        def collate(self, indices: np.ndarray) -> np.ndarray:
            return indices

        def loss(self, model: Any, batch: np.ndarray) -> tuple[Tensor, int]:
            self.carried["seen"][batch] += 1
            self.calls += 1
            if self.calls == 1:
                raise torch.OutOfMemoryError
            return self.model(torch.ones(len(batch), 1)).sum(), len(batch)

    task = Counting()
    strategy = choose_strategy(task, TrainConfig(max_steps=1, device="cpu", precision="float32"))  # type: ignore[arg-type]
    strategy.update(1, [np.arange(4)], 4, 0.1)
    assert task.carried["seen"].tolist() == [1, 1, 1, 1] and strategy.pieces == 2
