"""The contract between the training loop and the way a global batch is computed.

The loop (`harken.training.loop`) decides what happens: which batches, the learning rate, when to validate, save and
stop. A strategy decides how an update is computed: in one process, in forked workers, or by `torch.distributed`. It
owns the optimizer and the weight average, so that a strategy may also capture a whole update as one CUDA graph.

A global batch is a function of (seed, epoch) alone. A strategy splits it by `Task.share` and sums the gradients of the
shares, divided by the number of tokens of the whole batch, so the number of processes does not change the objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from harken.errors import UserError
from harken.training.adapter import Adapter
from harken.training.average import Average, local_part
from harken.training.checkpoints import CheckpointWriter, Progress
from harken.training.config import TrainConfig
from harken.training.diagnosis import first_nonfinite, infinite_gradients, nonfinite_loss
from harken.training.optimizers import build_optimizer, clip_by_global_norm, optimizer_tensors, restore_optimizer
from harken.training.prefetch import Prefetcher
from harken.training.task import (
    Indices,
    Task,
    batch_loss,
    copy_persistent_state,
    move_persistent_state,
    persistent_state,
    restore_persistent_state,
)
from harken.training.weights import save_tensors, state_of, with_current_names

T = TypeVar("T")


class StepResult(NamedTuple):
    """The result of an update. On a GPU these may be tensors, which the loop reads one step later."""

    loss: float | Tensor  # summed over the global batch
    norm: float | Tensor  # of the gradient, before clipping
    skipped: bool | Tensor  # no update was made: the loss or the norm is NaN or infinite
    ready: torch.cuda.Event | None = None  # after it tensors in host memory hold their values


class Strategy(ABC):
    """Computes updates and validations of one task.

    A subclass defines `backward` and `validate`, and what it needs of `place`, `broadcast` and `close`. One that
    computes a whole update in its own way defines `update`.

    Attributes:
        rank: the number of this process among those that run the loop.
        world_size: how many processes share a batch.
        adapter: what is trained in the place of the model, if the task has one.
        trained: the adapter, or else the model.
        optimizer, average: of the trained parameters as `place` left them.
        names: trained parameter -> name.
        pieces: in how many parts the shares of the last update were computed; more than 1 after memory ran out.
        survives_out_of_memory: whether a rank may run out of memory alone and try again: not where each layer needs
            all ranks at once.
        divides_weights: whether ranks have parts of the weights.
        prefetcher: gives the batches of shares, collated ahead where the loop announces them.
        settles_after: updates with batches of one shape before their speed is that of a long run.
    """

    rank = 0
    world_size = 1
    pieces = 1
    survives_out_of_memory = True
    divides_weights = False
    settles_after = 0

    def __init__(
        self,
        task: Task,
        config: TrainConfig,
        device: torch.device | None = None,
        prefetcher: Prefetcher | None = None,
    ) -> None:
        self.task, self.config, self.device = task, config, device or torch.device(config.device)
        self.prefetcher = prefetcher or Prefetcher(task)
        self.adapter: Adapter | None = getattr(task, "adapter", None)
        self.trained = task.model if self.adapter is None else self.adapter
        torch.set_num_threads(config.threads or 1)
        for module in task.model.modules():
            if hasattr(module, "prepare_training"):
                module.prepare_training(recompute=config.recompute, sharded=self.divides_weights)  # type: ignore[operator]
        try:
            self.place()
            self.names: dict[Tensor, str] = {value: name for name, value in self.trained.named_parameters()}
            self.optimizer = build_optimizer(self.trained, config)
            self.average = Average(self.trained, config.average)
        except BaseException:
            self.close()
            raise

    @property
    def is_main(self) -> bool:
        """Whether this process writes the run folder and decides."""
        return self.rank == 0

    def place(self) -> None:
        """Put model and carried states where they are trained, before the optimizer is built: device, shards ..."""
        self.task.model.to(self.device).train()
        self.trained.to(self.device)
        move_persistent_state(self.task, self.device)

    @abstractmethod
    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float | Tensor:
        """Leave the gradient of the global batch's loss / `num_tokens` in `.grad`; returns the summed loss."""

    def update(self, step: int, batches: list[Indices], num_tokens: int, rate: float) -> StepResult:
        """One update: gradient of the global batch, clipping, optimizer, weight average.

        Args:
            step: its number, from 1; random numbers are drawn from (seed, step, rank).
            batches: the batches whose gradients are accumulated.
            num_tokens: the number of tokens in them that the loss is summed over.
            rate: the learning rate.
        """
        return self.apply_gradients(step, self.backward(step, batches, max(num_tokens, 1)), rate)

    def apply_gradients(self, step: int, loss: float | Tensor, rate: float) -> StepResult:
        """Clip, update the parameters and their average; nothing where the loss or the norm is not finite."""
        self.before_clipping()
        norm = self.clip()
        skipped = not (bool(np.isfinite(float(loss))) and bool(torch.isfinite(norm)))
        if not skipped:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.merge()
            self.average.update(step)
        return StepResult(float(loss), float(norm), skipped)

    def before_clipping(self) -> None:
        """Leave the gradients of an adapter in `.grad`; those of a model are there."""
        if self.adapter is not None:
            self.adapter.project()

    def merge(self) -> None:
        """Give the model the weights that its adapter has now."""
        if self.adapter is not None:
            self.adapter.merge()

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside the block the model has the averaged weights."""
        try:
            with self.average.applied():
                self.merge()
                yield
        finally:
            self.merge()

    def clip(self) -> Tensor:
        """Clip the gradients by their global norm; returns the norm before."""
        return clip_by_global_norm(self.names, self.config.clip_norm)

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """The metrics of the validation data with the current weights, the same on every rank."""

    def broadcast(self, value: T) -> T:
        """The value of rank 0, of numbers, strings, lists and dicts of them."""
        return value

    def maximum(self, values: list[float]) -> list[float]:
        """The element-wise maximum over all ranks."""
        return values

    def state(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint: weights, average, optimizer, carried states. Called on all ranks."""
        return {**self._placed(), **dict(optimizer_tensors(self.optimizer, self.names))}

    def save(self, folder: Path, progress: Progress, settings: dict[str, Any], writer: CheckpointWriter) -> None:
        """Write a checkpoint (`harken.training.checkpoints`). Called on all ranks."""
        state = self.state()
        if self.is_main:
            writer.write(folder, state, progress, settings)

    def weights(self) -> dict[str, Tensor]:
        """The weights and buffers of the model, whole, or the factors of its adapter. Called on all ranks."""
        return state_of(self.task.model) if self.adapter is None else self.adapter.tensors()

    def save_weights(self, path: Path) -> None:
        """Write a model file. Called on all ranks."""
        weights = self.weights()
        if self.is_main:
            save_tensors(path, weights, None if self.adapter is None else self.adapter.metadata)

    def restore(self, tensors: dict[str, Tensor], folder: Path) -> None:
        """Restore what `state` gave. Buffers that the model calls `refitted` may be missing: a validation fits them.

        Raises:
            UserError: the checkpoint has other tensors than this run.
        """
        tensors = with_current_names(self.trained, tensors)
        refitted = {f"model.{name}" for name in getattr(self.task.model, "refitted", ())} - tensors.keys()
        placed = {name: local_part(value) for name, value in self._placed().items() if name not in refitted}
        for name, value in placed.items():
            if name not in tensors or tensors[name].shape != value.shape:
                raise UserError(
                    f"the checkpoint in {folder} has no {name} of shape {tuple(value.shape)}, so it belongs to "
                    "another recipe or version; train into a new folder, or start this run over with restart=True"
                )
        with torch.no_grad():
            for name, value in placed.items():
                value.copy_(tensors[name])
        self.merge()
        restore_optimizer(self.optimizer, self.names, tensors)

    def _placed(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint that exist before the first update."""
        tensors = {f"model.{name}": value for name, value in state_of(self.trained).items()}
        tensors |= {f"average.{name}": value for name, value in self.average.shadow.items()}
        tensors |= {f"carried.{name}": value for name, value in persistent_state(self.task).items()}
        return tensors

    def close(self) -> None:
        """End what the strategy started."""
        return

    def autocast(self) -> AbstractContextManager[Any]:
        """The context that the model computes in."""
        if self.config.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def share_gradients(self, rank: int, step: int, shares: list[Indices], num_tokens: int) -> float:
        """The gradient of one rank's shares, in `.grad`; returns their summed loss. Empty shares give none.

        Where memory runs out, the step is computed again with every share in two parts, four and so on.

        Raises:
            torch.OutOfMemoryError, MemoryError: also a single example does not fit.
        """
        self.pieces = 1
        before = copy_persistent_state(self.task)
        while True:
            parts = [part for indices in shares for part in np.array_split(indices, self.pieces) if len(part)]
            try:
                return self._parts_gradients(rank, step, parts, num_tokens)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as problem:
                if not is_out_of_memory(problem) or self.pieces >= max(map(len, shares)):
                    raise
            self.pieces *= 2  # after the except block, which would keep the tensors of the failed attempt alive
            restore_persistent_state(self.task, before)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def batch_loss(self, share: Indices) -> Tensor:
        """The summed loss of examples of this rank."""
        return batch_loss(self.task, share, self.prefetcher.take)

    def _parts_gradients(self, rank: int, step: int, parts: list[Indices], num_tokens: int) -> float:
        seed_step(self.config.seed, step, rank)
        self.zero_gradients()
        total = 0.0
        for place, indices in enumerate(parts, start=1):
            with self.autocast():
                loss = self.batch_loss(indices)
            if place == len(parts):
                self.before_last_backward()
            (loss / num_tokens).backward()
            total += float(loss.detach())
        return total

    def fits(self, indices: Indices) -> bool:
        """Whether memory is enough for the own share of a batch, forward and backward; nothing is communicated."""
        self.zero_gradients()
        try:
            with self.autocast():
                loss = self.batch_loss(self.task.share(indices, self.world_size)[self.rank])
            loss.backward()
            return True
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as problem:
            if not is_out_of_memory(problem):
                raise
            return False

    def diagnose(self, step: int, batches: list[Indices]) -> list[tuple[str, list[int]]]:
        """Where NaN or infinite values began in an update that was skipped, and in which examples.

        The batches are computed again as each rank computed them. Called on all ranks; carried states do not change.
        """
        shares = [self.task.share(indices, self.world_size) for indices in batches]
        diagnoses = []
        for rank in range(self.world_size):
            diagnoses += self._diagnose_shares(rank, step, [share[rank] for share in shares if len(share[rank])])
        return diagnoses

    def _diagnose_shares(self, rank: int, step: int, shares: list[Indices]) -> list[tuple[str, list[int]]]:
        before = copy_persistent_state(self.task)
        diagnoses: list[tuple[str, list[int]]] = []
        seed_step(self.config.seed, step, rank)
        for indices in shares:
            for parameter in self.task.model.parameters():
                parameter.grad = None
            with first_nonfinite(self.task.model) as nonfinite, self.autocast():
                loss = self.batch_loss(indices)
            place = nonfinite.place or nonfinite_loss(loss)
            if not place:
                loss.backward()
                place = infinite_gradients(self.task.model)
            if place:
                diagnoses.append((place, indices.tolist()))
        restore_persistent_state(self.task, before)
        return diagnoses

    def zero_gradients(self) -> None:
        """Forget the gradients of the step before."""
        for parameter in self.task.model.parameters():
            parameter.grad = None

    def before_last_backward(self) -> None:
        """Called before the backward pass after which the gradient of this rank is complete."""
        return

    def validate_share(self, rank: int) -> Any:
        """One rank's part of the validation, for `Task.score`."""
        with self.evaluating():
            return self.task.validate(rank, self.world_size)

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside the block the model is in evaluation mode, without gradients."""
        self.task.model.eval()
        try:
            with torch.no_grad(), self.autocast():
                yield
        finally:
            self.task.model.train()


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether memory ran out, of a GPU or of the machine: torch has a plain RuntimeError for the latter."""
    return isinstance(problem, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(problem)


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed torch by (seed, step, rank), so that a resumed run draws the same random numbers.

    `torch.manual_seed` would do the same, but it formats the stack for each backend that is not in use, which takes
    longer than a small update may.
    """
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1, np.uint64)[0] >> 1)
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


class Single(Strategy):
    """See `harken.training.strategies.base.Strategy`."""

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """The batches as `Task.share` orders them for one process."""
        return self.share_gradients(0, step, [self.task.share(indices, 1)[0] for indices in batches], num_tokens)

    def validate(self) -> dict[str, float]:
        """All of the validation data."""
        return self.task.score([self.validate_share(0)])
