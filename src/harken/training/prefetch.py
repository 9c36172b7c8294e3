"""Batches collated ahead of their step, and how long steps wait for them.

On a GPU a thread collates the next batches into pinned memory while the current one is computed, and another draws
the order of the next epoch. On a CPU all cores compute anyway, so both are done when they are needed; the time is
counted in the same way. A task that makes or transforms its examples while it collates them (`collates_in_processes`:
sound) has forked processes for it, on a GPU and on CPU cores that do not train. A batch is a function of its indices
alone, so neither the number of processes nor which of them makes a batch changes anything.

>>> class Doubling:
...     def share(self, indices, parts): return [indices]
...     def collate(self, indices): return 2 * indices
>>> ahead = Prefetcher(Doubling(), threaded=True)
>>> ahead.expect([np.arange(3)])
>>> ahead.take(np.arange(3)).tolist(), ahead.take(np.arange(2)).tolist()
([0, 2, 4], [0, 2])
>>> ahead.close()
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import islice
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.worker_pool import WorkerPool, available_cores

MOST_PENDING = 16  # batches that were announced and not taken; a strategy that never takes them fills no memory
MOST_PROCESSES = 8
QUEUED = 2  # batches for each process, so that none waits for the next


class Prefetcher:
    """The batches of one task in one process.

    Args:
        rank, world_size: of all processes that share a batch.
        threaded: collate what is expected in a thread.
        pinned: in memory that a GPU copies from while it computes.
        processes: collate what is expected, and the batches after it, in so many processes instead. Without these and
            without a thread, `expect` does nothing.

    Attributes:
        waited: seconds that steps have waited for their batches.
    """

    def __init__(
        self,
        task: Any,
        rank: int = 0,
        world_size: int = 1,
        threaded: bool = False,
        pinned: bool = False,
        processes: int = 0,
    ) -> None:
        self.task, self.rank, self.world_size, self.pinned = task, rank, world_size, pinned
        self.waited = 0.0
        self.thread = ThreadPoolExecutor(1, "prefetch") if threaded else None
        self.workers = CollateWorkers(task, processes) if processes else None
        self.pending: dict[bytes, Future[Any]] = {}
        self.drawing = ThreadPoolExecutor(1, "epoch") if threaded else None
        self.drawn: dict[int, Future[Any]] = {}
        self.batches: Sequence[np.ndarray] = ()  # of the current epoch
        self.place = 0  # of the batch that was expected last

    def epoch(self, number: int) -> Any:
        """The batches of an epoch; a thread goes on to draw those of the next one."""
        began = time.perf_counter()
        ahead = self.drawn.pop(number, None)
        self.batches, self.place = self.task.epoch(number) if ahead is None else ahead.result(), 0
        self.waited += time.perf_counter() - began
        if self.drawing is not None:
            self.drawn = {number + 1: self.drawing.submit(self.task.epoch, number + 1)}
        return self.batches

    def expect(self, batches: Iterable[np.ndarray]) -> None:
        """Announce global batches that are needed soon; this process collates its share of each."""
        if self.workers is not None:
            self._expect_in_processes(batches, self.workers)
        elif self.thread is not None:
            for share in map(self._share, batches):
                key = _key(share)
                if len(share) and key not in self.pending and len(self.pending) < MOST_PENDING:
                    self.pending[key] = self.thread.submit(self._collate, share)

    def take(self, share: np.ndarray) -> Any:
        """The batch of these indices: the expected one, or collated now."""
        began = time.perf_counter()
        key = _key(share)
        if self.workers is not None and key in self.workers:
            batch = self.workers.take(key)
            batch = pin(batch) if self.pinned else batch
        else:
            pending = self.pending.pop(key, None) if self.pending else None
            batch = pending.result() if pending is not None else self._collate(share)
        self.waited += time.perf_counter() - began
        return batch

    def share_of(self, seconds: float) -> float:
        """Which share of so many seconds was spent waiting; the count starts anew."""
        waited, self.waited = self.waited, 0.0
        return min(1.0, waited / max(seconds, 1e-9))

    def close(self) -> None:
        """End the threads and processes."""
        for thread in (self.thread, self.drawing):
            if thread is not None:
                thread.shutdown(wait=False, cancel_futures=True)
        if self.workers is not None:
            self.workers.close()
        self.pending.clear()
        self.drawn.clear()

    def _share(self, indices: np.ndarray) -> np.ndarray:
        share: np.ndarray = self.task.share(indices, self.world_size)[self.rank]
        return share

    def _expect_in_processes(self, batches: Iterable[np.ndarray], workers: CollateWorkers) -> None:
        """Submit these batches, and those that follow in the epoch as far as the processes have room."""
        first = next(iter(batches), None)
        if first is None:
            return
        while self.place < len(self.batches) and not np.array_equal(self.batches[self.place], first):
            self.place += 1
        for indices in islice(self.batches, self.place, self.place + workers.room):
            share = self._share(indices)
            if len(share):
                workers.submit(share)

    def _collate(self, share: np.ndarray) -> Any:
        batch = self.task.collate(share)
        return pin(batch) if self.pinned else batch


class CollateWorkers:
    """Forked processes that collate batches; each does those it was given in their order."""

    def __init__(self, task: Any, processes: int) -> None:
        self.task, self.processes = task, processes
        self.pool: WorkerPool | None = None
        self.queues: list[deque[bytes]] = [deque() for _ in range(processes)]  # keys of what each is to collate
        self.worker_of: dict[bytes, int] = {}
        self.done: dict[bytes, Any] = {}  # received before they were asked for

    def __contains__(self, key: bytes) -> bool:
        return key in self.worker_of

    @property
    def room(self) -> int:
        """How many batches ahead are collated."""
        return QUEUED * self.processes

    def submit(self, share: np.ndarray) -> None:
        """Have a batch collated, unless enough are waiting."""
        key = _key(share)
        if key in self.worker_of or len(self.worker_of) >= self.room:
            return
        if self.pool is None:
            self.pool = WorkerPool(self._collate, self.processes)
        worker = min(range(self.processes), key=lambda number: len(self.queues[number]))
        self.pool.send(worker, share)
        self.queues[worker].append(key)
        self.worker_of[key] = worker

    def take(self, key: bytes) -> Any:
        """The batch that was submitted under this key."""
        assert self.pool is not None
        worker = self.worker_of.pop(key)
        while key not in self.done:
            first, found = self.queues[worker].popleft(), self.pool.receive(worker)
            self.done[first] = map_batch(found, _Array, lambda array: torch.from_numpy(array.values))
        return self.done.pop(key)

    def close(self) -> None:
        """End the processes."""
        if self.pool is not None:
            self.pool.close()
        self.pool = None

    def _collate(self, share: np.ndarray) -> Any:
        torch.set_num_threads(1)  # in the child: threads of the parent are not there after a fork
        return map_batch(self.task.collate(share), Tensor, lambda tensor: _Array(tensor.numpy()))


@dataclass(frozen=True)
class _Array:
    """A tensor on its way through a pipe."""

    values: np.ndarray


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


def pin(batch: Any) -> Any:
    """A batch with all of its tensors in pinned memory."""
    return map_batch(batch, Tensor, lambda tensor: tensor.pin_memory())


def prefetcher_for(task: Any, device: torch.device, rank: int = 0, world_size: int = 1) -> Prefetcher:
    """That of a run on this device, also set as `task.prefetcher`, where `harken.training.task.batch_loss` finds it."""
    on_gpu = device.type == "cuda"
    processes = collate_processes(task, on_gpu) if getattr(task, "collates_in_processes", False) else 0
    task.prefetcher = Prefetcher(task, rank, world_size, threaded=on_gpu, pinned=on_gpu, processes=processes)
    found: Prefetcher = task.prefetcher
    return found


def collate_processes(task: Any, on_gpu: bool) -> int:
    """Processes to collate with: the cores that neither train nor feed a GPU; on a GPU at least one."""
    if current_process().daemon:  # may not have children
        return 0
    settings, ranks = task.settings, int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if on_gpu:
        return max(1, min(MOST_PROCESSES, available_cores() // ranks - 1))
    workers = settings.workers or 1
    if workers > 1:  # forked: every core trains, and collates its own share
        return 0
    return max(0, min(MOST_PROCESSES, available_cores() // ranks - (settings.threads or 1)))


def _key(share: np.ndarray) -> bytes:
    return np.ascontiguousarray(share).tobytes()
