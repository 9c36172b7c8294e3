"""Data-parallel training on CPU cores: forked processes share the weights and sum their gradients.

Parameters lie in shared memory, so an update made by the parent is seen by all workers; so do the states a task carries
from batch to batch (`harken.training.task`), each worker writing rows of its own. In one step the parent sends every
worker its share of the batch over a pipe, all compute gradients at once, each worker copies its own into shared memory,
and the parent adds them up in the order of the workers. The order of the sum is fixed, so a run with the same number of
workers is repeatable to the bit. A parameter that no worker used has no gradient, whatever their number.

Workers are forked and thus inherit task, data and model (`harken.worker_pool`).
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.errors import MachineError
from harken.training.prefetch import Prefetcher
from harken.training.strategies.base import Strategy, is_out_of_memory
from harken.training.task import Indices, persistent_state
from harken.training.weights import state_of
from harken.worker_pool import WorkerPool

REMEDY = "lower train.batch_tokens or train.workers and continue with resume=True"


def shared_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of the same shapes in anonymous memory shared with forked processes."""
    sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
    starts = np.cumsum([0] + [-(-size // 64) * 64 for size in sizes])
    memory = mmap.mmap(-1, max(int(starts[-1]), 1))
    return [
        torch.frombuffer(memory, dtype=tensor.dtype, count=tensor.numel(), offset=int(start)).view(tensor.shape)
        for tensor, start in zip(tensors, starts, strict=False)
    ]


class Forked(Strategy):
    """The parent's side of the workers; worker 0 is the parent itself. See `Strategy`."""

    def place(self) -> None:
        """Move the parameters to shared memory and fork `train.workers` - 1 processes."""
        self.world_size = self.config.workers or 1
        self.parameters = [parameter for parameter in self.task.model.parameters() if parameter.requires_grad]
        self.prefetchers: list[Prefetcher] = []  # of each worker but the parent
        self.workers: WorkerPool | None = None
        super().place()
        for parameter, shared in zip(self.parameters, shared_like(self.parameters), strict=True):
            shared.copy_(parameter.data)
            parameter.data = shared
        carried = persistent_state(self.task)
        for name, shared in zip(list(carried), shared_like(list(carried.values())), strict=True):
            carried[name] = shared.copy_(carried[name])
        others = range(1, self.world_size)
        self.gradients = [shared_like(self.parameters) for _ in others]
        used = torch.zeros(len(self.parameters), dtype=torch.uint8)  # which parameters a worker has a gradient for
        self.used = [shared_like([used])[0] for _ in others]
        self.buffers = shared_like(self._own_buffers())  # the parent's, for validation in all workers
        self.prefetchers = [self.prefetcher.for_worker(worker) for worker in others]
        self.workers = WorkerPool(self._compute, len(others), "a training worker", REMEDY)

    @property
    def processes(self) -> list[Any]:
        """The workers."""
        return self.workers.processes if self.workers else []

    def _own_buffers(self) -> list[Tensor]:
        return [value for value in state_of(self.task.model).values() if not isinstance(value, torch.nn.Parameter)]

    def backward(self, step: int, batches: list[Indices], num_tokens: int) -> float:
        """Every worker computes its share; the parent adds the gradients up in the order of the workers."""
        shares = [self.task.share(examples, self.world_size) for examples in batches]
        ahead = self.prefetcher.ahead
        for worker in range(1, self.world_size):
            own, next_ones = ([share[worker] for share in part] for part in (shares, ahead))
            self._pool.send(worker - 1, (worker, step, num_tokens, own, next_ones))
        loss = self.share_gradients(0, step, [share[0] for share in shares], num_tokens)
        for worker, (gradients, used) in enumerate(zip(self.gradients, self.used, strict=True)):
            own_loss, pieces = self._pool.receive(worker)
            loss, self.pieces = loss + own_loss, max(self.pieces, pieces)
            for parameter, gradient, present in zip(self.parameters, gradients, used.tolist(), strict=True):
                if not present:
                    continue
                if parameter.grad is None:
                    parameter.grad = gradient.clone()
                else:
                    parameter.grad.add_(gradient)
        return loss

    def validate(self) -> dict[str, float]:
        """Share the validation data out and put the results together."""
        for shared, own in zip(self.buffers, self._own_buffers(), strict=True):
            shared.copy_(own)
        others = range(1, self.world_size)
        for worker in others:
            self._pool.send(worker - 1, (worker,))
        results = [self.validate_share(0), *(self._pool.receive(worker - 1) for worker in others)]
        return self.task.score(results)

    def close(self) -> None:
        """Stop the workers."""
        if self.workers is not None:
            self.workers.close()
        for prefetcher in self.prefetchers:
            prefetcher.close()
        self.workers, self.prefetchers = None, []

    @property
    def _pool(self) -> WorkerPool:
        assert self.workers is not None, "the strategy was closed"
        return self.workers

    def _compute(self, item: tuple[Any, ...]) -> Any:
        """In a worker: its part of a validation, or the gradients of its shares.

        Raises:
            MachineError: out of memory.
        """
        worker, *update = item
        torch.set_num_threads(self.config.threads or 1)
        self.prefetcher = self.prefetchers[worker - 1]
        try:
            return self._share_update(worker, *update) if update else self._share_validation(worker)
        except Exception as problem:
            if is_out_of_memory(problem):
                raise MachineError(f"a training worker ran out of memory; {REMEDY}") from problem
            raise

    def _share_validation(self, worker: int) -> Any:
        for own, shared in zip(self._own_buffers(), self.buffers, strict=True):
            own.copy_(shared)
        return self.validate_share(worker)

    def _share_update(
        self, worker: int, step: int, num_tokens: int, shares: list[Indices], ahead: list[Indices]
    ) -> tuple[float, int]:
        self.prefetcher.announce(ahead)
        loss = self.share_gradients(worker, step, shares, num_tokens)
        self.used[worker - 1].copy_(torch.tensor([parameter.grad is not None for parameter in self.parameters]))
        for parameter, gradient in zip(self.parameters, self.gradients[worker - 1], strict=True):
            if parameter.grad is not None:
                gradient.copy_(parameter.grad)
        return loss, self.pieces
