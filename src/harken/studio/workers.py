"""Worker processes of the studio: all that runs a model or an experiment happens in them, never in the HTTP process.

A worker is `python -m harken.studio.worker`. It takes one task after the other, a line of JSON each, and answers with
lines: a word (`event`, `result` or `error`), a space and JSON. A pool has a few of them, started when they are needed.
Tasks wait in one queue, at most so many of each client. A task whose client has left is asked to stop (SIGUSR1); a task
that does not stop, and one that is past its deadline, is ended with its process and those that it has forked.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.studio.library import Library

MAX_LINE = 2**28  # bytes of an answer
COMMAND = [sys.executable, "-m", "harken.studio.worker"]
START_SECONDS = 60.0  # for a process to load its libraries


class Message(NamedTuple):
    """A line of a worker: an event, or the result, which is the last one; the value is JSON."""

    kind: str
    value: str


@dataclass(frozen=True)
class PoolLimits:
    """Bounds of a pool.

    Args:
        workers: processes, and so tasks that run at once.
        waiting: tasks that wait for one of them.
        per_client: tasks of one client that run or wait.
        seconds: from the arrival of a task until it is ended.
        stop_seconds: for a task to stop once its client has left.
        waiting_event: the first event of a task that has to wait, as JSON.
    """

    workers: int = 1
    waiting: int = 16
    per_client: int = 6
    seconds: float = 60.0
    stop_seconds: float = 10.0
    waiting_event: str | None = None


class Worker:
    """One process and the task that it was given."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.is_ready, self.is_busy = process, False, False

    @classmethod
    async def start(cls, library: Library) -> Worker:
        """Start a process that opens the models of a library."""
        pipe = asyncio.subprocess.PIPE
        command = [*COMMAND, json.dumps(library.to_json())]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, limit=MAX_LINE, start_new_session=True
        )  # a signal to the server's group is for the server alone, and a task may fork
        return cls(process)

    async def read(self) -> Message:
        """The next line.

        Raises:
            ApiError: the task has failed, or the process has died.
        """
        assert self.process.stdout is not None
        line = await self.process.stdout.readline()
        kind, _, value = line.decode().rstrip("\n").partition(" ")
        self.is_ready = True
        self.is_busy = self.is_busy and kind == "event"
        if kind == "error":
            raise ApiError(*json.loads(value))
        if not kind:
            await self.process.wait()
            raise WorkerFailed
        return Message(kind, value)

    async def begin(self, task: str, body: dict[str, Any]) -> None:
        """Give the process a task."""
        assert self.process.stdin is not None
        if not self.is_ready:
            await self.read()
        self.is_busy = True
        with suppress(ConnectionError):  # of a process that has died, which `read` notices
            self.process.stdin.write(json.dumps([task, body]).encode() + b"\n")
            await self.process.stdin.drain()

    async def stop(self) -> None:
        """Ask the task to stop, and wait for its end.

        Raises:
            ApiError: see `read`.
        """
        if not self.is_ready:
            await self.read()
        if self.is_busy:
            self.process.send_signal(signal.SIGUSR1)
        while self.is_busy:
            await self.read()

    async def kill(self) -> None:
        """End the process and those that it has forked."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()


class WorkerPool:
    """Runs tasks in worker processes."""

    def __init__(self, library: Library, limits: PoolLimits) -> None:
        self._library, self.limits = library, limits
        self._free = asyncio.Semaphore(limits.workers)
        self._workers: set[Worker] = set()
        self._idle: list[Worker] = []
        self._clients: Counter[str] = Counter()
        self._stopping: set[asyncio.Task[None]] = set()

    async def run(self, client: str, task: str, body: dict[str, Any]) -> str:
        """The result of a task, as JSON.

        Raises:
            ApiError: there is no room or no time, or what is wrong with the task.
        """
        async with aclosing(self.stream(client, task, body)) as messages:
            return [message.value async for message in messages][-1]

    async def stream(self, client: str, task: str, body: dict[str, Any]) -> AsyncGenerator[Message, None]:
        """The events of a task as they come, then its result; closing it ends the task.

        Raises:
            ApiError: as `run`.
        """
        limits, deadline = self.limits, asyncio.get_running_loop().time() + self.limits.seconds
        if self._clients.total() >= limits.workers + limits.waiting or self._clients[client] >= limits.per_client:
            raise QueueFull(1)
        self._clients[client] += 1
        worker: Worker | None = None
        has_slot = False
        try:
            if self._free.locked() and limits.waiting_event:
                yield Message("event", limits.waiting_event)
            async with asyncio.timeout_at(deadline):
                has_slot = await self._free.acquire()
                worker = self._idle.pop() if self._idle else await Worker.start(self._library)
                self._workers.add(worker)
                await worker.begin(task, body)
            while worker.is_busy:
                async with asyncio.timeout_at(deadline):
                    message = await worker.read()
                yield message
        except TimeoutError:
            raise DeadlinePassed(limits.seconds) from None
        finally:
            self._clients[client] -= 1
            self._clients += Counter()  # clients without tasks are forgotten
            if has_slot:  # in a task of its own, as this one may be cancelled
                stopping = asyncio.create_task(self._release(worker, deadline))
                self._stopping.add(stopping)
                stopping.add_done_callback(self._stopping.discard)

    async def _release(self, worker: Worker | None, deadline: float) -> None:
        """Keep a worker for the next task where it comes to the end of this one in time, else end it."""
        now = asyncio.get_running_loop().time()
        seconds = min(self.limits.stop_seconds, deadline - now) if worker and worker.is_ready else START_SECONDS
        try:
            if worker is not None:
                async with asyncio.timeout(seconds):
                    with suppress(ApiError):  # the task has failed
                        await worker.stop()
        except TimeoutError:
            pass
        finally:
            if worker is not None and not worker.is_busy and worker.is_ready and worker.process.returncode is None:
                self._idle.append(worker)
            elif worker is not None:
                self._workers.discard(worker)
                await worker.kill()
            self._free.release()

    async def close(self) -> None:
        """End the processes."""
        for worker in list(self._workers):
            await worker.kill()
        if self._stopping:
            await asyncio.wait(self._stopping)
        self._idle.clear()
