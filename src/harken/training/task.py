"""The interface between a task and the trainer: batches, a loss, and metrics.

A translator, a tagger or a forecaster is one class with these methods; the loop knows nothing else about it.
`harken.tasks.sequence_task` is the base of those whose examples have a length; it also defines `collate(indices)`,
which gives a batch of CPU tensors that depends on the indices alone.

A task may also carry tensors from batch to batch, as a language model does its states, in a dict `carried` that `loss`
reads and writes in place. The loop moves them to the device, shares them with worker processes and saves them in the
checkpoint. A row of them must belong to one worker, which `share` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np

from harken.lazy_torch import torch
from harken.training.config import TrainConfig

if TYPE_CHECKING:
    from torch import Tensor, nn

Indices = np.ndarray  # (B,) numbers of examples that make a batch
T = TypeVar("T")


@runtime_checkable
class Movable(Protocol):
    """A tensor, or an object that moves itself to a device."""

    def to(self, device: torch.device) -> Any:
        """The same on another device."""


class Work(NamedTuple):
    """The cost of one batch: tokens and FLOPs."""

    tokens: int  # that the model reads: source and target, without padding
    flops: float  # of the products of the forward and the backward pass

    def plus(self, other: Work) -> Work:
        """Both together."""
        return Work(self.tokens + other.tokens, self.flops + other.flops)


class Task(Protocol):
    """A job to train for.

    It may also have a `unit`, the name of what `size` counts, in the plural; `unread`, the keys of `[train]` that it
    does not depend on; `smoothing`, its label smoothing where the recipe leaves that open; an `adapter`
    (`harken.training.adapter`), which is trained in the place of the model; `work(indices) -> Work`, from which the log
    shows the utilisation of a GPU, and what `harken.training.strategies.captured` needs: `static_shapes`,
    `static_collate(indices)`, `is_static(batch)` and `static_loss(model, batch)`.
    """

    @property
    def model(self) -> nn.Module:
        """The model to train."""

    settings: TrainConfig  # that it works by; see `with_settings`
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


def with_settings(task: T, settings: TrainConfig) -> T:
    """The task by other settings; data, model and carried tensors are those of the given one, which stays as it is."""
    if getattr(task, "settings", None) == settings:
        return task
    other = copy(task)
    other.settings = settings  # type: ignore[attr-defined]
    return other


def batch_loss(task: Task, indices: Indices, collate: Callable[[Indices], Any] | None = None) -> Tensor:
    """The summed loss of some examples: collate on the CPU, move to the device, compute.

    Args:
        collate: in the place of the task's own.
    """
    batch = (collate or task.collate)(indices)
    summed, _ = task.loss(task.model, to_device(batch, next(task.model.parameters()).device))
    return summed


def map_batch(batch: Any, kind: type, function: Callable[[Any], Any]) -> Any:
    """A batch with a function applied to all of its parts of one type.

    >>> map_batch({"a": [1, "b"]}, int, lambda number: number + 1)
    {'a': [2, 'b']}
    """
    if isinstance(batch, kind):
        return function(batch)
    if isinstance(batch, tuple):
        parts = [map_batch(part, kind, function) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    if isinstance(batch, list):
        return [map_batch(part, kind, function) for part in batch]
    if isinstance(batch, dict):
        return {name: map_batch(part, kind, function) for name, part in batch.items()}
    if is_dataclass(batch) and not isinstance(batch, type):
        parts_by_name = {field.name: getattr(batch, field.name) for field in fields(batch)}
        return replace(batch, **{name: map_batch(part, kind, function) for name, part in parts_by_name.items()})
    return batch


def tensors_of(batch: Any) -> list[Tensor]:
    """All tensors of nested tuples, lists, dicts and dataclasses, in order."""
    if isinstance(batch, torch.Tensor):
        return [batch]
    if is_dataclass(batch):
        batch = [getattr(batch, field.name) for field in fields(batch)]
    elif isinstance(batch, dict):
        batch = batch.values()
    elif not isinstance(batch, tuple | list):
        return []
    return [tensor for part in batch for tensor in tensors_of(part)]


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch on another device: tensors and objects with `to`, in tuples, lists, dicts and dataclasses."""
    return map_batch(batch, Movable, lambda part: part.to(device))


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
