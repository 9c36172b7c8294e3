"""Fully sharded training (FSDP2): every rank keeps a part of the weights, their gradients, average and AdamW's state.

`torch.distributed.fsdp.fully_shard` divides parameters by their first dimension. A module that names `sharded_methods`
(a Transformer block) is a unit: its weights are gathered while one of these methods runs, in the forward pass and again
in the backward pass, and freed afterwards. What is outside of units (embeddings, norms, recurrent layers) is gathered
for the whole step. Validation gathers all weights in a copy of the model, because ranks decode different numbers of
steps.

Gradients are summed, not averaged, over the ranks: each rank divides by the tokens of the whole batch. With an empty
share a rank repeats an example with weight 0, because the units need all ranks. Only the last of several accumulated
batches is communicated.

A rank that runs out of memory cannot try again alone, as the others wait for it inside a layer. It ends the job with
its reason; where torchrun starts the ranks again (`--max-restarts`), all of them compute their shares in more parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor

from harken.training.average import local_part
from harken.training.checkpoints import CheckpointWriter, Progress, save_shard, shard_of
from harken.training.diagnosis import first_nonfinite, infinite_gradients, nonfinite_loss
from harken.training.optimizers import optimizer_tensors
from harken.training.strategies.base import is_out_of_memory, seed_step
from harken.training.strategies.distributed import Distributed
from harken.training.strategies.group import broadcast_tensors
from harken.training.task import Indices, copy_persistent_state, move_persistent_state, restore_persistent_state
from harken.training.weights import state_of

PIECES = "pieces"  # what ranks that are started again remember: in how many parts shares are computed


class Sharded(Distributed):
    """See `harken.training.strategies.base.Strategy`."""

    survives_out_of_memory = False
    divides_weights = True

    def place(self) -> None:
        """Divide the weights of rank 0 over the ranks; a unit at a time is whole on the device."""
        model = self.task.model
        if model not in _DIVIDED:  # else another strategy has divided it, to measure its speed
            broadcast_tensors(list(state_of(model).values()))
            whole = deepcopy(model).requires_grad_(False)  # without weights but in validation
            for parameter in whole.parameters():
                parameter.data = torch.empty(0)
            root, mesh = _Loss(model), init_device_mesh(self.device.type, (self.world_size,))
            for unit, methods in units_of(model):
                fully_shard(unit, mesh=mesh)
                for method in methods:
                    register_fsdp_forward_method(unit, method)
            _DIVIDED[model] = _Divided(fully_shard(root, mesh=mesh), whole)
        self.root, self.whole = _DIVIDED[model]
        self.sharded = [module for module in self.root.modules() if isinstance(module, FSDPModule)]
        for module in self.sharded:
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
            if hasattr(module, "set_reduce_scatter_unused_params"):  # torch 2.13; else all ranks must use all weights
                module.set_reduce_scatter_unused_params(True)
        model.to(self.device).train()
        move_persistent_state(self.task, self.device)
        self._keep_carried()
        self.pieces = self.group.recall(PIECES, 1)

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """The gradient of the own shares; FSDP sums it over the ranks and leaves each its part."""
        seed_step(self.config.seed, step, self.rank)
        self.zero_gradients()
        shares = [self.task.share(indices, self.world_size)[self.rank] for indices in batches]
        parts = [part for share in shares for part in np.array_split(share, self.pieces)]
        total = 0.0
        try:
            for place, part in enumerate(parts, start=1):
                self.root.set_requires_gradient_sync(place == len(parts))
                loss = self._loss(part, batches[0])
                (loss / num_tokens).backward()
                total += float(loss.detach())
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as problem:
            if is_out_of_memory(problem) and self.pieces < max(map(len, shares)):
                self.group.remember(PIECES, 2 * self.pieces)
            raise
        summed = torch.tensor([total], dtype=torch.float64, device=self.device)
        dist.all_reduce(summed)
        return float(summed)

    def _loss(self, share: Indices, batch: Indices) -> Tensor:
        """The summed loss of a share; of an empty one 0, for which an example of `batch` is computed."""
        before = {} if len(share) else copy_persistent_state(self.task)
        with self.autocast():
            loss: Tensor = self.root(self.batch_loss, share if len(share) else batch[:1]) * float(len(share) > 0)
        restore_persistent_state(self.task, before)
        return loss

    def diagnose(self, step: int, batches: list[Indices]) -> list[tuple[str, list[int]]]:
        """All ranks compute their shares again, forward and backward, because each layer needs all of them."""
        before, diagnoses = copy_persistent_state(self.task), list[tuple[str, list[int]]]()
        seed_step(self.config.seed, step, self.rank)
        for indices in batches:
            share = self.task.share(indices, self.world_size)[self.rank]
            self.zero_gradients()
            with first_nonfinite(self.task.model) as nonfinite:
                loss = self._loss(share, indices)
            loss.backward()
            places = self.group.gather([nonfinite.place or nonfinite_loss(loss), share.tolist()])
            gradients = self.group.gather(infinite_gradients(self.task.model))  # summed: no rank's own
            named = [(f"rank {rank}: {place}", own) for rank, (place, own) in enumerate(places) if place]
            diagnoses += named or [(place, indices.tolist()) for place in gradients if place][:1]
        restore_persistent_state(self.task, before)
        return diagnoses

    def clip(self) -> Tensor:
        """Clip by the norm over the parts of all ranks."""
        gradients = [local_part(parameter.grad) for parameter in self.names if parameter.grad is not None]
        norms = torch._foreach_norm(gradients) if gradients else [torch.zeros((), device=self.device)]
        squared = torch.stack(norms).square().sum()
        dist.all_reduce(squared)
        norm = squared.sqrt()
        if self.config.clip_norm is not None and gradients:
            torch._foreach_mul_(gradients, (self.config.clip_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Inside the block the task has an undivided copy of the model: ranks may call it as often as they like."""
        divided, whole = self.task.model, self.whole
        for (_, value), own in zip(divided.named_parameters(), whole.parameters(), strict=True):
            own.data = _whole(value)
        for buffer, own_buffer in zip(divided.buffers(), whole.buffers(), strict=True):
            own_buffer.data = buffer
        self.task.model = whole  # type: ignore[misc]
        try:
            with super().evaluating():
                yield
        finally:
            self.task.model = divided  # type: ignore[misc]
            for own in whole.parameters():
                own.data = torch.empty(0)

    def weights(self) -> dict[str, Tensor]:
        """Gathered one after the other into the memory of rank 0; the other ranks get nothing."""
        weights = {}
        for name, value in state_of(self.task.model).items():
            whole = _whole(value)
            if self.is_main:
                weights[name] = whole.cpu()
        return weights

    def save(self, folder: Path, progress: Progress, settings: dict[str, Any], writer: CheckpointWriter) -> None:
        """One file a rank, and an index once all are written: ranks wait for each other, so in no thread."""
        self.gather_carried()
        tensors = {**self._placed(), **dict(optimizer_tensors(self.optimizer, self.names))}
        divided = sorted(
            name for name, value in tensors.items() if isinstance(value, DTensor) or self._is_average(name)
        )
        parts = {
            name: local_part(value.detach()) for name, value in tensors.items() if self.is_main or name in set(divided)
        }
        save_shard(folder, parts, divided, progress, settings, self.rank, self.world_size, self.group.barrier)

    def restore(self, tensors: dict[str, Tensor], folder: Path) -> None:
        """Take this rank's part of whole tensors (`harken.training.checkpoints` merges the files of all ranks)."""
        own = dict(tensors)
        shapes = {name: value.shape for name, value in state_of(self.task.model).items()}
        for name, value in tensors.items():
            kind, _, rest = name.partition(".")
            key = rest.partition(".")[2] if kind == "optimizer" else rest
            if kind != "carried" and key in shapes and value.shape == shapes[key] and self._is_divided(key):
                own[name] = shard_of(value, self.rank, self.world_size)
        super().restore(own, folder)
        for parameter, state in self.optimizer.state.items():
            for key, value in state.items():
                if value.dim() and isinstance(parameter, DTensor) and not isinstance(value, DTensor):
                    state[key] = DTensor.from_local(
                        value, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape,
                        stride=parameter.stride(),
                    )  # fmt: skip

    def _placed(self) -> dict[str, Tensor]:
        """This rank's parts."""
        with torch.no_grad():
            return super()._placed()

    def _is_divided(self, name: str) -> bool:
        return isinstance(state_of(self.task.model).get(name), DTensor)

    def _is_average(self, name: str) -> bool:
        return name.startswith("average.") and self._is_divided(name.removeprefix("average."))


class _Loss(nn.Module):
    """A loss as the module that FSDP starts from, because a task may call any method of its model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Callable[[Indices], Tensor], indices: Indices) -> Tensor:
        """The summed loss of some examples."""
        return loss(indices)


class _Divided(NamedTuple):
    """The FSDP root and the whole copy of a model whose weights are divided."""

    root: Any  # the module that FSDP starts from
    whole: nn.Module  # a copy for validation


_DIVIDED: dict[nn.Module, _Divided] = {}  # of this process, a rank of torchrun, which ends with its job


def _whole(value: Tensor) -> Tensor:
    """A tensor put together from the parts of all ranks."""
    return value.detach() if not isinstance(value, DTensor) else DTensor.full_tensor(value.detach())  # type: ignore[arg-type]


def units_of(model: nn.Module) -> list[tuple[nn.Module, tuple[str, ...]]]:
    """Modules that name `sharded_methods`, inner ones first; none where units share a parameter."""
    units = [module for module in model.modules() if hasattr(module, "sharded_methods")][::-1]
    owner: dict[int, nn.Module] = {}
    for unit in units:
        inner = {
            id(parameter)
            for other in unit.modules()
            if other is not unit and other in units
            for parameter in other.parameters()
        }
        for parameter in unit.parameters():
            if id(parameter) not in inner and owner.setdefault(id(parameter), unit) is not unit:
                return []
    return [(unit, unit.sharded_methods) for unit in units]  # type: ignore[misc]
