"""The interface between a task and the trainer: batches, a loss, and metrics.

A translator, a tagger or a forecaster is one class with these methods; the loop knows nothing else about it.
`harken.tasks.sequence_task` is the base of those whose examples have a length; it also defines `collate(indices)`,
which gives a batch of CPU tensors that depends on the indices alone.

A task may also carry tensors from batch to batch, as a language model does its states, in a dict `carried` that `loss`
reads and writes in place. The loop moves them to the device, shares them with worker processes and saves them in the
checkpoint. A row of them must belong to one worker, which `share` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from harken.training.config import TrainConfig

Indices = np.ndarray  # (B,) numbers of examples that make a batch


class Work(NamedTuple):
    """What a batch costs."""

    tokens: int  # that the model reads: source and target, without padding
    flops: float  # of the products of the forward and the backward pass

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(self.tokens + other.tokens, self.flops + other.flops)


class Task(Protocol):
    """A job to train for.

    It may also have `work(indices) -> Work`, from which the log shows the utilisation of a GPU, and what
    `harken.training.strategies.captured` needs: `static_shapes`, `static_collate(indices)`, `is_static(batch)` and
    `static_loss(model, batch)`.
    """

    @property
    def model(self) -> nn.Module:
        """The model to train."""

    settings: TrainConfig  # that it works by; the trainer and the planner set it
    monitor: str  # the validation metric by which the best weights are chosen
    mode: str  # "min" or "max"

    def epoch(self, number: int) -> Sequence[Indices]:
        """The batches of an epoch, in order; the same for the same number."""

    def size(self, examples: Indices) -> int:
        """The number of tokens (labels, frames ...) that the loss of these examples is summed over, without padding."""

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Split a batch into parts of about equal work."""

    def collate(self, indices: Indices) -> Any:
        """The examples as one batch on the CPU."""

    def loss(self, model: Any, batch: Any) -> tuple[Tensor, int]:
        """The summed loss of a batch on the model's device, and the number of terms in the sum."""

    def validate(self, part: int, parts: int) -> Any:
        """Evaluate one part of the validation data; returns anything JSON can hold."""

    def score(self, results: list[Any]) -> dict[str, float]:
        """Combine the parts into metrics; one of them is `monitor`."""


@contextmanager
def configured(task: Any, settings: TrainConfig) -> Iterator[None]:
    """Inside the block the task works by other settings."""
    before = getattr(task, "settings", None)
    task.settings = settings
    try:
        yield
    finally:
        task.settings = before


def batch_loss(task: Task, indices: Indices, collate: Callable[[Indices], Any] | None = None) -> Tensor:
    """The summed loss of some examples: collate on the CPU, move to the device, compute.

    Args:
        collate: in the place of the task's own.
    """
    batch = (collate or task.collate)(indices)
    summed, _ = task.loss(task.model, to_device(batch, next(task.model.parameters()).device))
    return summed


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch on another device: a tensor, an object with `to`, or a tuple, list or dict of them; the rest stays."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, tuple):
        moved = [to_device(part, device) for part in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else tuple(moved)
    if isinstance(batch, list):
        return [to_device(part, device) for part in batch]
    if isinstance(batch, dict):
        return {name: to_device(part, device) for name, part in batch.items()}
    return batch


def persistent_state(task: Task) -> dict[str, Tensor]:
    """The tensors that a task carries from batch to batch, by name."""
    state: dict[str, Tensor] = getattr(task, "carried", {})
    return state


def copy_persistent_state(task: Task) -> dict[str, Tensor]:
    """Copies of the carried tensors, for `restore_persistent_state`."""
    return {name: value.clone() for name, value in persistent_state(task).items()}


def restore_persistent_state(task: Task, copies: dict[str, Tensor]) -> None:
    """Give the carried tensors the values of `copies`, in place."""
    for name, value in copies.items():
        persistent_state(task)[name].copy_(value)


def move_persistent_state(task: Task, device: torch.device) -> None:
    """Move the carried tensors to a device."""
    carried = persistent_state(task)
    carried.update({name: value.to(device) for name, value in carried.items()})
