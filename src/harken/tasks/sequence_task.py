"""A task over sequences: bucketed by length, cut at the token budget, shared evenly over workers.

A subclass defines three things (`harken.training.task.Task` has the contract):

    collate(indices, valid=False) -> Batch      padded tensors on the CPU
    loss(model, batch) -> (sum, count)          in training
    evaluate(model, batch) -> sums              in validation: numbers, which are added, and lists, which are joined
    metrics(sums) -> {"loss": ..., ...}         one of them is `monitor`

>>> merge_sums([{"loss": 1.5, "found": [3]}, {"loss": 2.0, "found": [4]}])
{'loss': 3.5, 'found': [3, 4]}
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from harken.data.batching import token_batches
from harken.errors import UserError
from harken.lazy_torch import torch
from harken.training.config import TrainConfig
from harken.training.task import Indices, to_device

if TYPE_CHECKING:
    from torch import Tensor, nn

M = TypeVar("M", bound="nn.Module")
B = TypeVar("B")
F = TypeVar("F", bound=Callable[..., Any])
Sums = dict[str, Any]  # of one batch, or of all: numbers and lists, as JSON has them


class SequenceTask(ABC, Generic[M, B]):
    """See `harken.training.task.Task`."""

    monitor: str = "loss"
    mode: str = "min"
    unit: str = "tokens"  # what `size` counts
    unread: ClassVar[frozenset[str]] = frozenset({"validate_sentences"})  # keys of [train] that change nothing here
    noise: ClassVar[int] = 1  # of `harken.data.batching.token_batches`
    smallest_batch: int = 1024  # the least that `harken.training.planning.fitting` chooses for batch_tokens

    def __init__(self, model: M, settings: TrainConfig, lengths: np.ndarray, valid_lengths: np.ndarray) -> None:
        """`lengths` (N,) and `valid_lengths` are the steps of every example in training and in validation."""
        self.model, self.settings = model, settings
        self.lengths, self.valid_lengths = lengths, valid_lengths

    @abstractmethod
    def collate(self, indices: Indices, valid: bool = False) -> B:
        """The examples as one batch on the CPU: of the training data, or of the validation data."""

    @abstractmethod
    def loss(self, model: M, batch: B) -> tuple[Tensor, int]:
        """The summed loss of a batch on the model's device, and how many terms it sums."""

    @abstractmethod
    def evaluate(self, model: M, batch: B) -> Sums:
        """Compute the sums of a batch for validation: numbers and lists that JSON can hold."""

    @abstractmethod
    def metrics(self, sums: Sums) -> dict[str, Any]:
        """The metrics of all validation data from its sums; one of them is `monitor`."""

    def size(self, indices: Indices) -> int:
        """The number of terms that the loss of these examples sums: by default their steps."""
        return int(self.lengths[indices].sum())

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device

    def compiled(self, function: F) -> F:
        """The function, compiled where the recipe has `train.compile`."""
        return torch.compile(function, dynamic=True) if self.settings.compile else function  # type: ignore[return-value]

    def epoch(self, number: int) -> Sequence[Indices]:
        """Examples of like length together, in an order drawn for this epoch."""
        budget, seed = self.settings.batch_tokens, self.settings.seed
        return token_batches(self.lengths, self.lengths, budget, seed=seed, epoch=number, noise=self.noise)

    def share(self, indices: Indices, parts: int) -> list[Indices]:
        """Deal the examples out by length, so that every worker has as much to do."""
        ordered = indices[np.argsort(self.lengths[indices], kind="stable")]
        return [ordered[part::parts] for part in range(parts)]

    def validate(self, part: int, parts: int) -> Sums:
        """The sums over one worker's share of the validation data."""
        return merge_sums(
            self.evaluate(self.model, to_device(self.collate(indices, valid=True), self.device))
            for indices in self.valid_batches(part, parts)
        )

    def valid_batches(self, part: int, parts: int) -> Iterable[Indices]:
        """One worker's share of the validation examples, in batches."""
        return length_batches(self.valid_lengths, self.settings.batch_tokens, part, parts)

    def score(self, results: list[Sums]) -> dict[str, Any]:
        """The metrics, from the sums of all workers."""
        return self.metrics(merge_sums(results))


def length_batches(lengths: np.ndarray, budget: int, part: int = 0, parts: int = 1) -> list[Indices]:
    """Examples from short to long in batches of at most `budget` steps; with `parts`, those of one worker.

    >>> [batch.tolist() for batch in length_batches(np.array([5, 1, 3, 2]), 6)]
    [[1, 3], [2], [0]]
    """
    mine = np.argsort(lengths, kind="stable")[part::parts]
    batches = token_batches(lengths[mine], lengths[mine], budget, seed=0, epoch=0, shuffle=False)
    return [mine[batch] for batch in batches]


def refuse_too_long(
    lengths: np.ndarray,
    limit: int | None,
    excess: str = "examples are longer than",
    unit: str = " steps",
    remedy: str = "",
) -> None:
    """Refuse examples that are longer than positions are learned, before training and not in the midst of it.

    Args:
        lengths: (N,) steps of every example.
        limit: the positions; None where they are not learned.
        excess, unit, remedy: the words of the error for these examples.

    Raises:
        UserError: how many, how long, and what may be done.
    """
    if limit is not None and lengths.max(initial=0) > limit:
        raise UserError(
            f"{int((lengths > limit).sum()):,} {excess} model.max_length {limit} (the longest has "
            f"{int(lengths.max())}{unit}): raise model.max_length, {remedy}or take positions that are not learned"
        )


def perplexity(loss: float) -> float:
    """exp of a mean loss; of an untrained model's at most exp(50), which JSON can hold."""
    return math.exp(min(loss, 50.0))


def merge_sums(results: Iterable[Mapping[str, Any]]) -> Sums:
    """Add numbers and join lists by name."""
    total: Sums = {}
    for result in results:
        for name, value in result.items():
            total[name] = total[name] + value if name in total else value
    return total
