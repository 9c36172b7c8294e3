"""The threads and the reusable memory of the CPU kernels, one set per process.

Threads: each works on some rows of a batch, or on one direction, through all steps. Torch splits each product over its
threads and synchronises them, some 400 times per layer; here they meet once, after the last step. Inside, products run
on one thread. The threads are started once per process and are as many as torch's.

Workspace: fresh pages from the system cost more than the gates that fill them. The gates of a layer of 64 x 64 steps of
512 units are 33 MB; allocating them takes 17 ms, filling them 3. So they are kept after the backward pass for the next
call, up to `MAX_BYTES` in all.

A forked process has neither its parent's threads nor the owner of a lock that was held, so both start afresh.

>>> results = []
>>> run_all([lambda: results.append(1)])
>>> results
[1]
>>> buffer = acquire(torch.empty(0), 3, 4)
>>> buffer.shape
torch.Size([3, 4])
>>> release([buffer])
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING

from harken.lazy_torch import is_loaded, num_threads, torch
from harken.machine import CAN_FORK

if TYPE_CHECKING:
    from torch import Tensor

MAX_BYTES = 2**28  # kept for later, 256 MiB
MIN_BYTES = 2**20  # smaller buffers come quickly from the allocator

_pools: dict[tuple[int, bool], ThreadPoolExecutor] = {}  # by the number of threads, and whether they are torch's
_spare: list[Tensor] = []  # flat, longest kept first
_pool_lock, _workspace_lock = threading.Lock(), threading.Lock()


def _after_fork() -> None:
    global _pool_lock, _workspace_lock
    _pools.clear()
    _spare.clear()  # the list may have been half changed
    _pool_lock, _workspace_lock = threading.Lock(), threading.Lock()


if CAN_FORK:
    os.register_at_fork(after_in_child=_after_fork)


def _pool(threads: int) -> ThreadPoolExecutor:
    with _pool_lock:
        has_torch = is_loaded()
        if (threads, has_torch) not in _pools:
            started = threading.Barrier(threads)

            def begin() -> None:
                if has_torch:
                    torch.set_num_threads(1)  # for this thread, and for those to come: hence the line after the pool

            pool = ThreadPoolExecutor(threads, "harken", initializer=begin)
            for done in [pool.submit(started.wait) for _ in range(threads)]:
                done.result()
            if has_torch:
                torch.set_num_threads(threads)
            _pools[threads, has_torch] = pool
        return _pools[threads, has_torch]


def run_all(tasks: Sequence[Callable[[], object]], threads: int | None = None) -> None:
    """Run the tasks without autograd and return when the last is done; raises the error of one that failed.

    Args:
        threads: by default those of torch in this thread.
    """
    threads = threads or num_threads()
    if threads == 1 or len(tasks) == 1:
        for task in tasks:
            _without_autograd(task)
        return
    for done in [_pool(threads).submit(_without_autograd, task) for task in tasks]:
        done.result()


def _without_autograd(task: Callable[[], object]) -> None:
    with torch.no_grad() if is_loaded() else nullcontext():  # a new thread starts with autograd on
        task()


def acquire(like: Tensor, rows: int, width: int) -> Tensor:
    """An uninitialised buffer (rows, width) of the dtype of `like`."""
    size = rows * width
    with _workspace_lock:
        fitting = [flat for flat in _spare if flat.dtype == like.dtype and size <= len(flat) <= 2 * size]
        if fitting:
            best = min(fitting, key=len)
            _spare[:] = [flat for flat in _spare if flat is not best]
            return best[:size].view(rows, width)
    return like.new_empty(size).view(rows, width)


def release(buffers: Iterable[Tensor]) -> None:
    """Buffers from `acquire` that nobody reads any more."""
    with _workspace_lock:
        for buffer in buffers:
            flat = buffer._base if buffer._base is not None else buffer
            if flat.dim() == 1 and flat.numel() * flat.element_size() >= MIN_BYTES:
                _spare.append(flat.detach())
        while sum(flat.numel() * flat.element_size() for flat in _spare) > MAX_BYTES:
            _spare.pop(0)
