"""The engine: takes work, forms batches, keeps workers busy, restarts those that die, swaps models.

It lives in the event loop. Workers call back from their threads through `loop.call_soon_threadsafe`. A worker gets a
second batch while it runs the first where a whole batch waits, or shortly before the first is expected to end: it is
never idle while results are written, and what comes before that still joins the batch. Work of a worker that dies is
tried once more, each request in batches of its own; the one that is the cause then fails alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.serving.engine.batching import Batch, Batcher, Work
from harken.serving.engine.worker import Message, Problem, ProcessWorker, ThreadWorker
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving")
MAX_ATTEMPTS = 2  # workers that may die over a work
MAX_STARTS = 5  # deaths of a worker in a row, before it has done anything
QUEUE_SHARE = 1 / 6  # of the time of a request that it may wait in the queue, as far as can be foreseen
LEAD = 0.25  # of the time of a batch that the next one is given before its end
_END = object()


@dataclass
class Stream:
    """One stream, from the worker's messages to the reader."""

    number: int
    message: Message
    events: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)


class Slot:
    """The place of one worker: the worker itself, and what it was given."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.worker: ProcessWorker | ThreadWorker | None = None
        self.batches: dict[int, Batch] = {}
        self.streams: dict[int, Stream] = {}
        self.loaded: set[str] = set()
        self.deaths = 0  # since it last did something
        self.generation = 0
        self.next_at = 0.0  # when it may get a second batch


class Engine:
    """Runs work on models.

    Args:
        folders: the folder of every model, by its name.
    """

    def __init__(self, folders: Mapping[str, Path], settings: ServerSettings, metrics: Metrics | None = None) -> None:
        self.folders, self.settings = dict(folders), settings
        self.metrics = metrics or Metrics()
        self.batcher = Batcher(
            settings.batch_tokens, settings.batch_texts, settings.queue_tokens, QUEUE_SHARE, max(1, settings.workers)
        )
        self.facts: dict[str, dict[str, Any]] = {}  # what workers tell of every model
        self.problem: str | None = None  # why no model can be served
        self._slots = [Slot(number) for number in range(max(1, settings.workers))]
        self._numbers = itertools.count()
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()  # for `drain`
        self._stopping = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the workers and wait until one has loaded every model.

        Raises:
            UserError: a model cannot be loaded.
        """
        self._loop = asyncio.get_running_loop()
        for slot in self._slots:
            self._start_worker(slot)
        self._tasks.add(asyncio.create_task(self._watch_deadlines()))
        await self._ready.wait()
        if self.problem:
            problem = self.problem
            await self.stop(0.1)
            raise UserError(problem)

    async def stop(self, seconds: float | None = None) -> None:
        """Finish what was accepted, for at most so many seconds; then end the workers."""
        self._stopping = True
        limit = self.settings.stop_seconds if seconds is None else seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self.batcher.waiting > 0 or any(slot.batches or slot.streams for slot in self._slots):
                    self._changed.clear()
                    await self._changed.wait()
        for task in self._tasks:
            task.cancel()
        for slot in self._slots:
            if slot.worker is not None:
                slot.generation += 1  # what it says from now on is not heard
                slot.worker.send(("stop",))
        for slot in self._slots:
            if slot.worker is not None and not await asyncio.to_thread(slot.worker.join, 5.0):
                slot.worker.kill()
        while (batch := self.batcher.next()) is not None:
            batch.fail(ApiError(503, "the server is stopping", 5))

    def reload(self, name: str, folder: Path) -> None:
        """Load a folder that has changed; requests go on with the old model until the new one is there."""
        self.folders[name] = folder
        for slot in self._slots:
            if slot.worker is not None:
                slot.worker.send(("load", name, str(folder)))

    @property
    def is_healthy(self) -> bool:
        """Whether a worker has every model."""
        return any(slot.worker is not None and slot.loaded >= self.folders.keys() for slot in self._slots)

    # ---- work --------------------------------------------------------------------------------------------------------

    async def submit(self, work: Work, seconds: float | None = None) -> list[Any]:
        """The results of a work, one for each item.

        Args:
            seconds: until it is given up; the server's limit if that is shorter.

        Raises:
            ApiError: there is no room, no time, or an error in the request or the server.
        """
        if self._stopping:
            raise ApiError(503, "the server is stopping", 5)
        if not work.items:
            return []
        limit = min(seconds or self.settings.timeout, self.settings.timeout)
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        now = time.monotonic()
        work.deadline, work.urgent_at = now + limit, now + limit / 2
        work.on_done = lambda done: None if future.done() else future.set_result(done.results)
        work.on_error = lambda _, error: None if future.done() else future.set_exception(error)
        try:
            self.batcher.add(work)
        except QueueFull:
            self.metrics.count("rejected")
            raise
        self._dispatch()
        try:
            return await future
        except Problem as problem:
            raise ApiError(400 if problem.is_user_error else 500, problem.message) from None
        finally:
            work.over = True  # also where the client has left

    async def stream(self, model: str, operation: str, options: dict[str, Any], item: Any) -> AsyncIterator[Any]:
        """The events of a stream, as they come; leaving the loop cancels it.

        Raises:
            ApiError: as `submit`.
        """
        if self._stopping:
            raise ApiError(503, "the server is stopping", 5)
        slot = min((slot for slot in self._slots if slot.worker is not None), key=_load_of, default=None)
        if slot is None or sum(len(slot.streams) for slot in self._slots) >= self.settings.streams:
            self.metrics.count("rejected")
            raise QueueFull(1)
        number = next(self._numbers)
        stream = Stream(number, ("stream", number, model, operation, options, item))
        slot.streams[number] = stream
        assert slot.worker is not None
        slot.worker.send(stream.message)
        ended = False
        try:
            async with asyncio.timeout(self.settings.timeout):
                while (event := await stream.events.get()) is not _END:
                    if isinstance(event, Problem):
                        ended = True
                        raise ApiError(400 if event.is_user_error else 500, event.message)
                    if isinstance(event, ApiError):
                        ended = True
                        raise event
                    yield event
                ended = True
        except TimeoutError:
            raise DeadlinePassed(self.settings.timeout) from None
        finally:
            slot.streams.pop(number, None)
            if not ended and slot.worker is not None:
                slot.worker.send(("cancel", number))
            self._changed.set()

    def _dispatch(self) -> None:
        """Give batches to workers that have nothing to do, and a second one to those that will soon be done."""
        now = time.monotonic()
        for depth in (0, 1):
            for slot in self._slots:
                if slot.worker is None or not slot.loaded or len(slot.batches) > depth:
                    continue
                if depth and now < slot.next_at and not self.batcher.is_full_batch():
                    continue
                batch = self.batcher.next()
                if batch is None:
                    return
                if batch.model not in slot.loaded:
                    self.batcher.put_back(batch)
                    continue
                number, batch.worker = next(self._numbers), slot.number
                slot.batches[number] = batch
                if not depth:
                    self._expect(slot, batch, now)
                slot.worker.send(("batch", number, batch.model, batch.operation, batch.options, batch.items))

    def _expect(self, slot: Slot, batch: Batch, now: float) -> None:
        """A worker begins a batch: look for the next one shortly before it will be done."""
        seconds = (1 - LEAD) * batch.cost / self.batcher.speed.of(slot.number)
        slot.next_at = now + seconds
        assert self._loop is not None
        self._loop.call_later(seconds, self._dispatch)

    # ---- messages of workers -----------------------------------------------------------------------------------------

    def _start_worker(self, slot: Slot) -> None:
        slot.generation += 1
        generation = slot.generation
        loop = self._loop
        assert loop is not None

        def receive(message: Message | None) -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._receive, slot, generation, message)

        kind: Callable[..., Any] = ProcessWorker if self.settings.workers else ThreadWorker
        slot.worker, slot.loaded = kind(self.settings.device, receive, len(self._slots)), set()
        for name, folder in self.folders.items():
            slot.worker.send(("load", name, str(folder)))

    def _receive(self, slot: Slot, generation: int, message: Message | None) -> None:
        if generation != slot.generation:
            return  # of a worker that was replaced
        if message is None:
            self._restart_worker(slot)
        else:
            getattr(self, f"_on_{message[0]}")(slot, *message[1:])
        self._dispatch()
        self._changed.set()

    def _on_result(self, slot: Slot, number: int, results: list[Any]) -> None:
        batch, slot.deaths = slot.batches.pop(number), 0
        now = time.monotonic()
        self.batcher.done(batch, now)
        if slot.batches:
            self._expect(slot, next(iter(slot.batches.values())), now)
        self.metrics.batch(len(batch.items), batch.cost, now - batch.started)
        batch.finish(results)

    def _on_error(self, slot: Slot, number: int, problem: Problem) -> None:
        slot.deaths = 0
        if number in slot.streams:
            slot.streams.pop(number).events.put_nowait(problem)
        elif number in slot.batches:
            batch = slot.batches.pop(number)
            works = batch.works()
            if len(works) == 1:
                self.batcher.running -= batch.cost
                batch.fail(problem)
            else:  # one bad request does not fail those it was put together with
                self._retry(batch)

    def _on_event(self, slot: Slot, number: int, value: Any) -> None:
        if number in slot.streams:
            slot.streams[number].events.put_nowait(value)

    def _on_end(self, slot: Slot, number: int) -> None:
        if number in slot.streams:
            slot.streams.pop(number).events.put_nowait(_END)

    def _on_loaded(self, slot: Slot, name: str, facts: dict[str, Any]) -> None:
        if name in slot.loaded:
            log.info("worker %d has loaded %s again", slot.number, name)
            self.metrics.count("reloads")
        slot.loaded.add(name)
        self.facts[name] = facts
        if slot.loaded >= self.folders.keys():
            self._ready.set()

    def _on_refused(self, slot: Slot, name: str, message: str) -> None:
        if name in slot.loaded:
            log.warning("%s has changed and cannot be loaded, the old model is kept: %s", name, message)
            return
        self.problem = message
        self._ready.set()

    def _restart_worker(self, slot: Slot) -> None:
        """A worker died: try its work again, and start another."""
        batches, streams = list(slot.batches.values()), list(slot.streams.values())
        slot.batches, slot.streams, slot.worker = {}, {}, None
        for stream in streams:
            stream.events.put_nowait(WorkerFailed())
        for batch in batches:
            for work in batch.works():
                work.attempts += 1
                if work.attempts >= MAX_ATTEMPTS:
                    work.fail(WorkerFailed())
            self._retry(batch)
        if self._stopping:
            return
        slot.deaths += 1
        self.metrics.count("worker_restarts")
        log.warning("worker %d died; it is started again", slot.number)
        if slot.deaths > MAX_STARTS:
            self.problem = f"the worker process died {slot.deaths} times in a row; see its messages above"
            self._ready.set()
            return
        assert self._loop is not None
        self._loop.call_later(0.1 * 2 ** (slot.deaths - 1), self._start_worker, slot)

    def _retry(self, batch: Batch) -> None:
        """Queue the units whose work is not over again, each work in batches of its own."""
        self.batcher.running -= sum(unit.cost for unit in batch.units if unit.work.over)
        batch.units = [unit for unit in batch.units if not unit.work.over]
        for work in batch.works():
            work.attempts = max(work.attempts, 1)
        self.batcher.put_back(batch)

    async def _watch_deadlines(self) -> None:
        while True:
            await asyncio.sleep(0.25)
            self.batcher.drop_late(time.monotonic(), lambda work: DeadlinePassed(self.settings.timeout))
            self._dispatch()
            self._changed.set()


def _load_of(slot: Slot) -> int:
    return len(slot.streams) + len(slot.batches)
