"""Jobs over the cores: each in a process of its own with one thread, since small matrices gain nothing from a second.

Processes are forked, so a job may use whatever its experiment has made; what it returns goes back as JSON. Results do
not depend on how many processes there are: a job draws its own random numbers from its own seed.

>>> spread(lambda job: job * job, [1, 2, 3], silent, workers=1)
[1, 4, 9]
"""

from __future__ import annotations

import json
import os
import signal
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing import connection, get_all_start_methods, get_context
from typing import Any, TypeVar

import torch

from harken.lab.experiment import Progress, silent
from harken.machine import available_cores

__all__ = ["silent", "spread"]
Job = TypeVar("Job")
MOST = 8  # more processes are limited by memory bandwidth


def spread(
    work: Callable[[Job], Any],
    jobs: Sequence[Job],
    progress: Progress,
    say: Callable[[Job], str] = str,
    workers: int | None = None,
    span: tuple[float, float] = (0.0, 1.0),
) -> list[Any]:
    """`[work(job) for job in jobs]`, several at once; what comes back is what JSON makes of it.

    Args:
        say: a short description of a finished job, for the user.
        workers: processes; None: one a core.
        span: the part of `progress` that these jobs cover.

    Raises:
        RuntimeError: a job failed or its process died; the others are ended.
    """
    workers = min(len(jobs), MOST, available_cores() if workers is None else workers)
    results: list[Any] = [None] * len(jobs)

    def tell(done: int, index: int) -> None:
        progress(span[0] + (span[1] - span[0]) * done / len(jobs), say(jobs[index]))

    if workers < 2 or "fork" not in get_all_start_methods():
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for index, job in enumerate(jobs):
                results[index] = json.loads(json.dumps(work(job)))
                tell(index + 1, index)
        finally:
            torch.set_num_threads(threads)
        return results

    processes: list[Any] = []
    pipes: list[Any] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # no Ctrl-C between a fork and its registration
    try:
        _fork(work, jobs, workers, processes, pipes)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        waiting = iter(range(len(jobs)))
        for pipe in pipes:
            _send_next(pipe, waiting)
        for done in range(1, len(jobs) + 1):
            pipe = connection.wait(pipes)[0]
            assert isinstance(pipe, connection.Connection)
            index, result = _receive(pipe)
            results[index] = result
            _send_next(pipe, waiting)
            tell(done, index)
        return results
    finally:  # also after Ctrl-C: no process is left behind
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for pipe in pipes:
            pipe.close()


def _fork(
    work: Callable[[Any], Any], jobs: Sequence[Any], workers: int, processes: list[Any], pipes: list[Any]
) -> None:
    """Start the processes; they and our ends of their pipes go into the two lists."""
    context = get_context("fork")
    for _ in range(workers):
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(work, jobs, there, [*pipes, here]), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: ours start none of torch's
            process.start()
        there.close()
        processes.append(process)
        pipes.append(here)


def _send_next(pipe: Any, waiting: Any) -> None:
    index = next(waiting, None)
    if index is not None:
        pipe.send_bytes(json.dumps(index).encode())


def _receive(pipe: Any) -> tuple[int, Any]:
    try:
        answer = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        raise RuntimeError("a process of the lab died; is the machine out of memory?") from None
    if "failed" in answer:
        raise RuntimeError(f"a job of the lab failed:\n{answer['failed']}")
    return answer["job"], answer["result"]


def _serve(work: Callable[[Any], Any], jobs: Sequence[Any], pipe: Any, parents: list[Any]) -> None:
    """The loop of a process: receive a job's index, run it, send the result; end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    for other in parents:  # or the pipes of a dead parent would stay open here
        other.close()
    torch.set_num_threads(1)
    while True:
        try:
            index = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer: dict[str, Any] = {"job": index, "result": work(jobs[index])}
            message = json.dumps(answer).encode()
        except Exception:
            message = json.dumps({"failed": traceback.format_exc()}).encode()
        try:
            pipe.send_bytes(message)
        except OSError:  # the parent went in the meantime
            os._exit(0)
