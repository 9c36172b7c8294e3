"""Threads for `cpu_recurrent`: each takes some rows of a batch, or one direction, through all steps by itself.

Torch splits each product over its threads and waits for all of them, some 400 times a layer; a thread here waits for
nobody until the last step is done. Inside, products run on one thread. The threads are started once a process (a
forked one starts its own) and take torch's number of threads as their number.

>>> found = []
>>> run_all([lambda: found.append(1)])
>>> found
[1]
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
_lock = threading.Lock()


def _forget() -> None:
    """A forked process has none of its parent's threads."""
    global _lock
    _pools.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)


def _pool(threads: int) -> ThreadPoolExecutor:
    with _lock:
        if threads not in _pools:
            started = threading.Barrier(threads)

            def begin() -> None:
                torch.set_num_threads(1)  # for this thread, and for those to come: hence the line after the pool

            pool = ThreadPoolExecutor(threads, "harken", initializer=begin)
            for done in [pool.submit(started.wait) for _ in range(threads)]:
                done.result()
            torch.set_num_threads(threads)
            _pools[threads] = pool
        return _pools[threads]


def run_all(tasks: Sequence[Callable[[], object]]) -> None:
    """Run the tasks, without autograd, and come back when the last is done; its error, where one failed."""
    threads = torch.get_num_threads()
    if threads == 1 or len(tasks) == 1:
        with torch.no_grad():
            for task in tasks:
                task()
        return
    for done in [_pool(threads).submit(_without_autograd, task) for task in tasks]:
        done.result()


def _without_autograd(task: Callable[[], object]) -> None:
    with torch.no_grad():  # a new thread starts with autograd on
        task()
