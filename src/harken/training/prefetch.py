"""Batches collated ahead of their step, and how long steps wait for them.

On a GPU a thread collates the next batches into pinned memory while the current one is computed, and another draws
the order of the next epoch. On a CPU all cores compute anyway, so both are done when they are needed; the time is
counted in the same way.

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

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

MOST_PENDING = 16  # batches that were announced and not taken; a strategy that never takes them fills no memory


class Prefetcher:
    """The batches of one task in one process.

    Args:
        rank, world_size: of all processes that share a batch.
        threaded: collate what is expected in a thread; else `expect` does nothing.
        pinned: in memory that a GPU copies from while it computes.

    Attributes:
        waited: seconds that steps have waited for their batches.
        whole: set by a strategy that takes global batches as they are, not shares of them.
    """

    whole = False

    def __init__(
        self, task: Any, rank: int = 0, world_size: int = 1, threaded: bool = False, pinned: bool = False
    ) -> None:
        self.task, self.rank, self.world_size, self.pinned = task, rank, world_size, pinned
        self.waited = 0.0
        self.thread = ThreadPoolExecutor(1, "prefetch") if threaded else None
        self.pending: dict[bytes, Future[Any]] = {}
        self.drawing = ThreadPoolExecutor(1, "epoch") if threaded else None
        self.drawn: dict[int, Future[Any]] = {}

    def epoch(self, number: int) -> Any:
        """The batches of an epoch; a thread goes on to draw those of the next one."""
        began = time.perf_counter()
        ahead = self.drawn.pop(number, None)
        batches = self.task.epoch(number) if ahead is None else ahead.result()
        self.waited += time.perf_counter() - began
        if self.drawing is not None:
            self.drawn = {number + 1: self.drawing.submit(self.task.epoch, number + 1)}
        return batches

    def expect(self, batches: Iterable[np.ndarray]) -> None:
        """Announce global batches that are needed soon; this process collates its share of each."""
        if self.thread is None:
            return
        for indices in batches:
            share = indices if self.whole else self.task.share(indices, self.world_size)[self.rank]
            key = _key(share)
            if len(share) and key not in self.pending and len(self.pending) < MOST_PENDING:
                self.pending[key] = self.thread.submit(self._collate, share)

    def take(self, share: np.ndarray) -> Any:
        """The batch of these indices: the expected one, or collated now."""
        began = time.perf_counter()
        pending = self.pending.pop(_key(share), None) if self.pending else None
        batch = pending.result() if pending is not None else self._collate(share)
        self.waited += time.perf_counter() - began
        return batch

    def share_of(self, seconds: float) -> float:
        """Which share of so many seconds was spent waiting; the count starts anew."""
        waited, self.waited = self.waited, 0.0
        return min(1.0, waited / max(seconds, 1e-9))

    def close(self) -> None:
        """End the thread."""
        for thread in (self.thread, self.drawing):
            if thread is not None:
                thread.shutdown(wait=False, cancel_futures=True)
        self.pending.clear()
        self.drawn.clear()

    def _collate(self, share: np.ndarray) -> Any:
        batch = self.task.collate(share)
        return pin(batch) if self.pinned else batch


def pin(batch: Any) -> Any:
    """A batch with all of its tensors in pinned memory."""
    if isinstance(batch, Tensor):
        return batch.pin_memory()
    if isinstance(batch, tuple):
        parts = [pin(part) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts)
    if isinstance(batch, list):
        return [pin(part) for part in batch]
    if isinstance(batch, dict):
        return {name: pin(part) for name, part in batch.items()}
    if is_dataclass(batch) and not isinstance(batch, type):
        return replace(batch, **{field.name: pin(getattr(batch, field.name)) for field in fields(batch)})
    return batch


def prefetcher_for(task: Any, device: torch.device, rank: int = 0, world_size: int = 1) -> Prefetcher:
    """That of a run on this device, also set as `task.prefetcher`, where `harken.training.task.batch_loss` finds it."""
    on_gpu = device.type == "cuda"
    task.prefetcher = Prefetcher(task, rank, world_size, threaded=on_gpu, pinned=on_gpu)
    found: Prefetcher = task.prefetcher
    return found


def _key(share: np.ndarray) -> bytes:
    return np.ascontiguousarray(share).tobytes()
