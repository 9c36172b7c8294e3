"""A function applied to many items by forked processes; results come in the order of the items.

Each process has one item at a time, so memory is bounded by the number of processes. Processes are forked and thus
inherit the function and all it refers to; they exit when the pipe to the parent closes, also when the parent is killed.

>>> list(ordered_map(lambda number: number * number, range(5), processes=2))
[0, 1, 4, 9, 16]
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import current_process
from typing import Any, TypeVar

from harken.errors import STOP_SIGNALS, MachineError, UserError
from harken.machine import CAN_FORK, available_cores, require_fork

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_PROCESSES = 16  # beyond that, the parent that reads and writes is the limit
POLL = 1.0  # seconds between checks that a process is alive while its answer is awaited
ERRORS = {"user error": UserError, "machine error": MachineError}


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int | None = None
) -> Iterator[Result]:
    """`map` over several processes.

    Args:
        processes: by default the cores of the machine; with 1, or where none can be forked, everything happens in this
            process.

    Raises:
        UserError: as the function raises.
        MachineError: a process was killed.
    """
    count = min(available_cores(), MOST_PROCESSES) if processes is None else processes
    if count == 1 or not CAN_FORK or current_process().daemon:  # a daemonic process may not have children
        yield from map(function, items)
        return
    pool = WorkerPool(function, count)
    try:
        pending: deque[int] = deque()
        free = deque(range(count))
        for item in items:
            if not free:
                worker = pending.popleft()
                result = pool.receive(worker)
                pool.send(worker, item)  # before the result is used, so that the process goes on meanwhile
                pending.append(worker)
                yield result
                continue
            worker = free.popleft()
            pool.send(worker, item)
            pending.append(worker)
        while pending:
            yield pool.receive(pending.popleft())
    finally:
        pool.close()


class WorkerPool:
    """Forked processes, each at the end of an anonymous pipe.

    Blocks and arrays travel through the pipes as pickle. Both ends are this program: no other process can write to such
    a pipe, and what the files contain travels as bytes and is never unpickled by itself.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        count: int,
        name: str = "a worker process",
        remedy: str = "free some memory",
    ) -> None:
        """`name` and `remedy` are what messages call a process, and what to do where one was killed.

        Raises:
            UserError: processes cannot be forked on this system.
        """
        import multiprocessing

        require_fork("work in several processes")
        self.name = name
        self.died = f"{name} was killed, usually because the machine ran out of memory; {remedy}"
        context = multiprocessing.get_context("fork")
        self.pipes: list[Any] = []
        self.processes: list[Any] = []
        for _ in range(count):
            here, there = context.Pipe()
            self.pipes.append(here)
            process = context.Process(target=_serve, args=(function, there, list(self.pipes)), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            there.close()
            self.processes.append(process)

    def send(self, worker: int, item: Any) -> None:
        try:
            self.pipes[worker].send_bytes(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
        except OSError:
            raise MachineError(self.died) from None

    def receive(self, worker: int) -> Any:
        pipe, process = self.pipes[worker], self.processes[worker]
        try:
            while not pipe.poll(POLL):
                if not process.is_alive() and not pipe.poll(0):
                    raise MachineError(self.died)
            kind, value = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            raise MachineError(self.died) from None
        if kind in ERRORS:
            raise ERRORS[kind](value)
        if kind == "failed":
            raise RuntimeError(f"{self.name} failed:\n{value}")
        return value

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.close()
        for process in self.processes:
            process.kill()  # it holds nothing: results are written by the parent
            process.join()


def _serve(function: Callable[[Any], Any], pipe: Any, parents: list[Any]) -> None:
    """A process's life: wait for an item, compute, answer; end when the parent goes."""
    for number in STOP_SIGNALS:  # the parent decides what they mean
        signal.signal(number, signal.SIG_IGN)
    for other in parents:  # else the pipes of a dead parent would stay open here
        other.close()
    while True:
        try:
            item = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)
        try:
            answer: Any = ("result", function(item))
        except UserError as problem:
            answer = ("machine error" if isinstance(problem, MachineError) else "user error", str(problem))
        except Exception:
            answer = ("failed", traceback.format_exc())
        try:
            pipe.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
        except OSError:
            os._exit(0)
