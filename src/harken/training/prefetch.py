"""Batches collated ahead of their step, and how long steps wait for them.

On a GPU a thread collates the next batches into pinned memory while the current one is computed, and another draws
the order of the next epoch. On a CPU all cores compute anyway, so a batch is collated when it is needed, and those that
follow with it: many in a row take less time each, because the code stays in the processor's cache, which an update of
the model clears. All of that time counts as waiting. A task that makes or transforms its examples while it
collates them (`collates_in_processes`: sound) has forked processes for it, also on CPU cores that train, which they
share. A batch is a function of its indices alone, so neither the number of processes nor which of them makes a batch
changes anything.

torch's DataLoader has the same order and resumes at a position, but its processes serve only the process that made its
iterator, and forked training workers may have no children. It was also slower for small batches: with one process 7.8
ms a batch of 1,024 tokens beside 1.2, without 0.8 beside 0.3; for batches of sound it was as fast or faster.

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

import math
import mmap
import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from harken.machine import CAN_FORK, available_cores
from harken.training.task import map_batch
from harken.worker_pool import WorkerPool

MOST_PENDING = 16  # batches that were announced and not taken; a strategy that never takes them fills no memory
MOST_PROCESSES = 8
LEAST_PROCESSES = 2  # for each process that trains on a CPU: together they may use two thirds of a core they share
QUEUED = 2  # batches for each process, so that none waits for the next
SLOTS = 2 * QUEUED  # batches of each process in shared memory, also those that nobody takes
SLOT_BYTES = 1 << 23  # of which memory is taken only as far as batches fill it


class Prefetcher:
    """The batches of one task in one process.

    Args:
        rank, world_size: of all processes that share a batch.
        threaded: collate what is expected in a thread.
        pinned: in memory that a GPU copies from while it computes.
        processes: collate what is expected, and the batches after it, in so many processes instead. Without these and
            without a thread, what is expected is collated together with the next batch that is taken.

    Attributes:
        collate: makes a batch of a share; a strategy may replace that of the task.
        waited: seconds that steps have waited for their batches.
        ahead: the shares, by rank, of each batch that the last `expect` announced.
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
        self.collate = task.collate
        self.waited = 0.0
        self.thread = ThreadPoolExecutor(1, "prefetch") if threaded else None
        self.workers = CollateWorkers(task, processes) if processes else None
        self.room = self.workers.room if self.workers is not None else MOST_PENDING  # batches that are looked ahead
        self.pending: dict[bytes, Future[Any]] = {}
        self.coming: list[np.ndarray] = []  # own shares to collate with the next batch
        self.ready: dict[bytes, Any] = {}
        self.drawing = ThreadPoolExecutor(1, "epoch") if threaded or processes else None
        self.drawn: dict[int, Future[Any]] = {}
        self.batches: Sequence[np.ndarray] = ()  # of the current epoch
        self.place = 0  # of the batch that was expected last
        self.announced = 0  # batches of the current epoch, and after its end of the next one, up to which all are known
        self.ahead: list[list[np.ndarray]] = []

    def epoch(self, number: int) -> Any:
        """The batches of an epoch; a thread goes on to draw those of the next one."""
        began = time.perf_counter()
        ahead = self.drawn.pop(number, None)
        self.announced = 0 if ahead is None else max(0, self.announced - len(self.batches))
        self.batches, self.place = self.task.epoch(number) if ahead is None else ahead.result(), 0
        self.waited += time.perf_counter() - began
        if self.drawing is not None:
            self.drawn = {number + 1: self.drawing.submit(self.task.epoch, number + 1)}
        return self.batches

    def expect(self, batches: Iterable[np.ndarray]) -> None:
        """Announce the global batches of the next update; this process collates its share of each.

        Without a thread, or with processes, also the batches of the epoch that follow.
        """
        if self.thread is None or self.workers is not None:
            self._look_ahead(next(iter(batches), None))
            self.announce([shares[self.rank] for shares in self.ahead])
            return
        for share in (self._shares(indices)[self.rank] for indices in batches):
            key = _key(share)
            if len(share) and key not in self.pending and len(self.pending) < MOST_PENDING:
                self.pending[key] = self.thread.submit(self._collate, share)

    def announce(self, shares: Iterable[np.ndarray]) -> None:
        """Say which batches this process needs next, in their order."""
        needed = [share for share in shares if len(share)]
        if self.workers is None:
            self.coming = needed or self.coming
            return
        for share in needed:
            self.workers.submit(share)

    def take(self, share: np.ndarray) -> Any:
        """The batch of these indices: the expected one, or collated now."""
        began = time.perf_counter()
        key = _key(share)
        if self.workers is not None and key in self.workers:
            batch = self.workers.take(key)
            batch = pin(batch) if self.pinned else batch
        else:
            pending = self.pending.pop(key, None)
            batch = pending.result() if pending is not None else self._collate_with_coming(share, key)
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
        for gone in (self.pending, self.drawn, self.ready, self.coming):
            gone.clear()

    def for_worker(self, rank: int) -> Prefetcher:
        """That of another process that trains, which is forked after this call; the processes are those of this one."""
        return Prefetcher(self.task, rank, self.world_size, processes=self.workers.processes if self.workers else 0)

    def _shares(self, indices: np.ndarray) -> list[np.ndarray]:
        """Of every rank."""
        shares: list[np.ndarray] = self.task.share(indices, self.world_size)
        return shares

    def _look_ahead(self, first: np.ndarray | None) -> None:
        """Find the batches to announce, from `first` on (None: the epoch ends), also those of the next epoch if drawn.

        Processes have as many as they have room for; without them the next ones follow when none is left.
        """
        while self.place < len(self.batches) and (first is None or not np.array_equal(self.batches[self.place], first)):
            self.place += 1
        self.ahead = []
        if self.workers is None and self.announced > self.place:
            return
        drawn = next(iter(self.drawn.values()), None)
        following = drawn.result() if drawn is not None and drawn.done() else ()
        known = len(self.batches) + len(following)
        for place in range(max(self.place, self.announced), min(self.place + self.room, known)):
            after = place - len(self.batches)
            self.ahead.append(self._shares(self.batches[place] if after < 0 else following[after]))
            self.announced = place + 1

    def _collate_with_coming(self, share: np.ndarray, key: bytes) -> Any:
        """The batch of these indices; where it is not there yet, those that follow are collated with it."""
        if key in self.ready:
            return self.ready.pop(key)
        batch = self._collate(share)
        if self.coming:
            self.ready = {_key(indices): self._collate(indices) for indices in self.coming if _key(indices) != key}
            self.coming = []
        return batch

    def _collate(self, share: np.ndarray) -> Any:
        batch = self.collate(share)
        return pin(batch) if self.pinned else batch


class CollateWorkers:
    """Forked processes that collate batches; each does those it was given in their order.

    Tensors come through shared memory. Through a pipe, which holds less than a batch, a process could not begin the
    next batch before this one is read, and the reader would wait for the process to write the rest.
    """

    def __init__(self, task: Any, processes: int) -> None:
        self.task, self.processes = task, processes
        self.memory = [mmap.mmap(-1, SLOTS * SLOT_BYTES) for _ in range(processes)]
        self.free = [list(range(SLOTS)) for _ in range(processes)]
        self.pool = WorkerPool(self._collate, processes)
        self.queues: list[deque[tuple[bytes, int]]] = [deque() for _ in range(processes)]  # keys and slots of each
        self.worker_of: dict[bytes, int] = {}
        self.done: dict[bytes, Any] = {}  # received before they were asked for

    def __contains__(self, key: bytes) -> bool:
        return key in self.worker_of

    @property
    def room(self) -> int:
        """How many batches ahead are collated."""
        return QUEUED * self.processes

    def submit(self, share: np.ndarray) -> None:
        """Have a batch collated, unless many are waiting that nobody took."""
        key = _key(share)
        worker = min(range(self.processes), key=lambda number: len(self.queues[number]))
        if key in self.worker_of or not self.free[worker]:
            return
        slot = self.free[worker].pop()
        self.pool.send(worker, (worker, slot, share))
        self.queues[worker].append((key, slot))
        self.worker_of[key] = worker

    def take(self, key: bytes) -> Any:
        """The batch that was submitted under this key."""
        worker = self.worker_of.pop(key)
        while key not in self.done:
            (first, slot), batch = self.queues[worker].popleft(), self.pool.receive(worker)
            self.done[first] = map_batch(batch, _Array, lambda array: array.tensor(self.memory[worker]))
            self.free[worker].append(slot)
        return self.done.pop(key)

    def close(self) -> None:
        """End the processes."""
        self.pool.close()

    def _collate(self, item: tuple[int, int, np.ndarray]) -> Any:
        worker, slot, share = item
        torch.set_num_threads(1)  # in the child: threads of the parent are not there after a fork
        memory, place, end = self.memory[worker], slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES

        def store(tensor: Tensor) -> _Array:
            nonlocal place
            array, start = tensor.contiguous().numpy(), place
            if start + array.nbytes > end:
                return _Array(array, 0, (), "")
            memory[start : start + array.nbytes] = array.tobytes()
            place += -(-array.nbytes // 64) * 64
            return _Array(None, start, array.shape, array.dtype.str)

        return map_batch(self.task.collate(share), Tensor, store)


@dataclass(frozen=True)
class _Array:
    """A tensor on its way from a process: where it lies in shared memory, or its values where it does not fit."""

    values: np.ndarray | None
    start: int
    shape: tuple[int, ...]
    kind: str

    def tensor(self, memory: mmap.mmap) -> Tensor:
        """A copy, after which the memory may be used again."""
        if self.values is not None:
            return torch.from_numpy(self.values)
        count = math.prod(self.shape)
        values = np.frombuffer(memory, dtype=self.kind, count=count, offset=self.start)
        return torch.from_numpy(values.reshape(self.shape).copy())


def pin(batch: Any) -> Any:
    """A batch with all of its tensors in pinned memory."""
    return map_batch(batch, Tensor, lambda tensor: tensor.pin_memory())


def prefetcher_for(task: Any, device: torch.device, rank: int = 0, world_size: int = 1) -> Prefetcher:
    """That of a run on this device."""
    on_gpu = device.type == "cuda"
    processes = collate_processes(task, on_gpu) if getattr(task, "collates_in_processes", False) else 0
    return Prefetcher(task, rank, world_size, threaded=on_gpu, pinned=on_gpu, processes=processes)


def collate_processes(task: Any, on_gpu: bool) -> int:
    """Processes to collate with, for each one that trains: the cores that neither train nor feed a GPU.

    On a GPU at least one; on a CPU at least two, which share the cores with the training. They stop where batches
    enough are ready, so they take no more of the cores than the batches need. A rank of torchrun has none: they would
    be forked beside the threads of the other ranks' connections, and hold these open where the rank dies.
    """
    if not CAN_FORK or current_process().daemon or dist.is_initialized():  # a daemon may not have children
        return 0
    settings = task.settings
    if on_gpu:
        return max(1, min(MOST_PROCESSES, available_cores() - 1))
    spare = available_cores() // (settings.workers or 1) - (settings.threads or 1)
    return max(LEAST_PROCESSES, min(MOST_PROCESSES, spare))


def _key(share: np.ndarray) -> bytes:
    return np.ascontiguousarray(share).tobytes()
