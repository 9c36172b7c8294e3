"""Runs of an experiment over the cores: each in a process of its own with one thread, since small matrices gain nothing
from a second.

Processes are forked, so a run may use whatever its experiment has built. Results do not depend on how many processes
there are: a run draws its own random numbers from its own seed.

>>> from harken.lab.experiment import Settings, silent
>>> sweep(lambda base, power, seed: base**power + seed, [(2, 3), (3, 2)], Settings(quick=True), silent, seeds=2)
{(2, 3): [9, 10], (3, 2): [10, 11]}
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import connection
from typing import Any

import torch

from harken.lab.experiment import Progress, Settings
from harken.machine import CAN_FORK, available_cores
from harken.worker_pool import WorkerPool

MOST = 8  # more processes are limited by memory bandwidth


def sweep(
    work: Callable[..., Any],
    variants: Iterable[Any],
    settings: Settings,
    progress: Progress,
    seeds: int = 1,
    describe: Callable[..., str] | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> dict[Any, list[Any]]:
    """`work(*variant, seed)` for every variant and seed; variant -> the results of its seeds, from the first on.

    Args:
        variants: tuples of arguments, or single arguments; where they take unequal time, the longest first.
        describe: the arguments of a finished run in words, for the user.
        span: the part of `progress` that these runs cover.

    Raises:
        UserError: as `work` raises; MachineError where a process was killed. The other processes are ended.
    """
    variants = list(variants)
    keys = [(variant, settings.seed + number) for variant in variants for number in range(seeds)]
    jobs = [(*variant, seed) if isinstance(variant, tuple) else (variant, seed) for variant, seed in keys]
    describe = describe or (lambda *arguments: f"{', '.join(map(str, arguments[:-1]))}, seed {arguments[-1]}")
    results = spread(lambda job: work(*job), jobs, progress, describe, 1 if settings.quick else None, span)
    runs: dict[Any, list[Any]] = {variant: [] for variant in variants}
    for (variant, _), result in zip(keys, results, strict=True):
        runs[variant].append(result)
    return runs


def spread(
    work: Callable[[Any], Any],
    jobs: Sequence[tuple[Any, ...]],
    progress: Progress,
    describe: Callable[..., str],
    workers: int | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> list[Any]:
    """`[work(job) for job in jobs]`, several at once: a process for each core unless `workers` says how many."""
    workers = min(len(jobs), MOST, available_cores() if workers is None else workers)
    results: list[Any] = [None] * len(jobs)
    waiting = iter(range(len(jobs)))

    def report(done: int, index: int) -> None:
        progress(span[0] + (span[1] - span[0]) * done / len(jobs), describe(*jobs[index]))

    if workers < 2 or not CAN_FORK:
        with one_thread():
            for index in waiting:
                results[index] = work(jobs[index])
                report(index + 1, index)
        return results

    def serve(index: int) -> Any:
        torch.set_num_threads(1)
        return work(jobs[index])

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # no Ctrl-C between a fork and its registration
    pool = WorkerPool(serve, workers)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        running: dict[Any, tuple[int, int]] = {}  # pipe -> worker, index of its job

        def start(worker: int) -> None:
            index = next(waiting, None)
            if index is not None:
                pool.send(worker, index)
                running[pool.pipes[worker]] = worker, index

        for worker in range(workers):
            start(worker)
        for done in range(1, len(jobs) + 1):
            worker, index = running.pop(connection.wait(list(running))[0])
            results[index] = pool.receive(worker)
            start(worker)
            report(done, index)
        return results
    finally:  # also after Ctrl-C: no process is left behind
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pool.close()


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch with one thread until the block ends."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
