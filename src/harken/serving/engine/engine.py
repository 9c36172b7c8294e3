"""The engine: takes work, forms batches, keeps workers busy, gives up what nobody waits for.

It lives in the event loop. Workers call back from their threads through `loop.call_soon_threadsafe`. A worker gets a
second batch while it runs the first where a whole batch waits, or shortly before the first is expected to end: it is
never idle while results are written, and what comes before that still joins the batch. Work of a worker that dies is
tried once more, each request in batches of its own; the one that is the cause then fails alone.

Work ends in one of four ways: it is answered, it fails, its deadline passes, or its client leaves. After the last three
`_give_up` drops what still waits and cancels batches that nobody else waits for; a stream is cancelled likewise. A
worker that does not end what was cancelled is killed by the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.serving.engine.batching import Batch, Batcher, Work
from harken.serving.engine.slots import Slot, Stream
from harken.serving.engine.supervision import Supervisor
from harken.serving.engine.worker import Message, Problem
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, Unavailable, WorkerFailed
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

MAX_ATTEMPTS = 2  # workers that may die over a work
QUEUE_SHARE = 1 / 6  # of the time of a request that it may wait in the queue, as far as can be foreseen
LEAD = 0.25  # of the time of a batch that the next one is given before its end
_END = object()


class Engine:
    """Runs work on models.

    Args:
        folders: the folder of every model, by its name.
    """

    def __init__(self, folders: Mapping[str, Path], settings: ServerSettings, metrics: Metrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        self.batcher = Batcher(
            settings.batch_tokens, settings.batch_texts, settings.queue_tokens, QUEUE_SHARE, max(1, settings.workers)
        )
        self.supervisor = Supervisor(folders, settings, self.metrics, self)
        self._numbers = itertools.count()
        self._streams = 0  # that run or wait for a worker
        self._changed = asyncio.Event()
        self._is_stopping = False

    # ---- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the workers and wait until one has loaded every model.

        Raises:
            UserError: a model cannot be loaded.
        """
        self.supervisor.start()
        await self.supervisor.has_loaded.wait()
        refused = [reason for slot in self.supervisor.slots for reason in slot.refused.values()]
        problem = next(iter(refused), None) or self.problem
        if problem:
            await self.stop(0.1)
            raise UserError(problem)

    async def stop(self, seconds: float | None = None) -> None:
        """Finish what was accepted, for at most so many seconds; then end the workers."""
        self._is_stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.stop_seconds if seconds is None else seconds):
                while self.batcher.waiting > 0 or self._streams or any(slot.is_busy for slot in self.supervisor.slots):
                    await self._wait_for_change()
        await self.supervisor.stop()
        stopped = ApiError(503, "the server is stopping", 5)
        self.batcher.fail_waiting(stopped)
        for slot in self.supervisor.slots:
            for batch in slot.batches.values():
                batch.fail(stopped)
            for stream in slot.streams.values():
                stream.events.put_nowait(stopped)

    def reload(self, name: str, folder: Path) -> None:
        """Load a folder that has changed; requests go on with the old model until the new one is there."""
        self.supervisor.reload(name, folder)

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        """The facts that workers tell of every model."""
        return self.supervisor.facts

    @property
    def problem(self) -> str | None:
        """Why no request will be answered soon; None: nothing is wrong, or not for long."""
        return self.supervisor.problem()

    @property
    def is_live(self) -> bool:
        """Whether this process works as it should, whatever its workers do."""
        return self.supervisor.is_live

    @property
    def is_ready(self) -> bool:
        """Whether every model can answer now: some worker has it loaded, and is alive."""
        return self.supervisor.is_ready and not self._is_stopping

    # ---- work --------------------------------------------------------------------------------------------------------

    async def submit(self, work: Work, seconds: float | None = None) -> list[Any]:
        """The results of a work, one for each item.

        Args:
            seconds: until it is given up; the server's limit if that is shorter.

        Raises:
            ApiError: there is no room, no time, or an error in the request or the server.
        """
        self._check_accepting(work)
        if not work.items:
            return []
        limit, loop = min(seconds or self.settings.timeout, self.settings.timeout), asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        now = time.monotonic()
        work.deadline, work.urgent_at = now + limit, now + limit / 2
        work.on_done = lambda done: None if future.done() else future.set_result(done.results)
        work.on_error = lambda _, error: None if future.done() else future.set_exception(error)
        try:
            self.batcher.add(work)
        except QueueFull:
            self.metrics.count("rejected")
            raise
        timer = loop.call_later(limit, work.fail, DeadlinePassed(limit))
        self._dispatch()
        try:
            return await future
        except Problem as problem:
            raise _api_error(problem) from None
        finally:
            timer.cancel()
            if work.left:
                self._give_up(work)

    async def stream(self, work: Work, seconds: float | None = None) -> AsyncIterator[Any]:
        """The events of a work with one item, as they come; leaving the loop cancels it.

        A stream whose worker dies before its first event is sent to another one, once.

        Raises:
            ApiError: as `submit`.
        """
        self._check_accepting(work)
        self.batcher.check_size(sum(work.costs))
        if self._streams >= self.settings.streams:
            self.metrics.count("rejected")
            raise QueueFull(1)
        limit = min(seconds or self.settings.timeout, self.settings.timeout)
        work.deadline = time.monotonic() + limit
        self._streams += 1
        try:
            for attempt in range(1, MAX_ATTEMPTS + 1):
                has_begun = False
                try:
                    async for event in self._events(work):
                        has_begun = True
                        yield event
                    return
                except WorkerFailed:
                    if has_begun or attempt == MAX_ATTEMPTS:
                        raise
        except TimeoutError:
            raise DeadlinePassed(limit) from None
        finally:
            self._streams -= 1
            self._changed.set()

    async def _events(self, work: Work) -> AsyncIterator[Any]:
        """The events of a stream on one worker.

        Raises:
            TimeoutError: its deadline has passed.
        """
        while not (slots := self.supervisor.slots_of(work.model)):
            self._check_available(work.model)
            async with asyncio.timeout(work.deadline - time.monotonic()):
                await self._wait_for_change()
        slot, number, stream = min(slots, key=lambda slot: slot.load), next(self._numbers), Stream(work)
        slot.streams[number] = stream
        assert slot.worker is not None
        slot.worker.send(("stream", number, work.model, work.operation, work.options, work.items[0]))
        try:
            while True:
                async with asyncio.timeout(work.deadline - time.monotonic()):
                    event = await stream.events.get()
                if event is _END:
                    return
                if isinstance(event, Exception):
                    raise _api_error(event)
                yield event
        finally:
            if slot.streams.get(number) is stream:
                stream.cancelled_at = time.monotonic()
                slot.worker.send(("cancel", number))

    def _check_accepting(self, work: Work) -> None:
        if self._is_stopping:
            raise ApiError(503, "the server is stopping", 5)
        self._check_available(work.model)

    def _check_available(self, model: str) -> None:
        if problem := self.supervisor.problem(model):
            raise Unavailable(problem)

    def _give_up(self, work: Work) -> None:
        """Drop what waits of a work that has no reader, and cancel batches that nobody else waits for."""
        work.over = True
        self.batcher.remove(work)
        now = time.monotonic()
        for slot in self.supervisor.slots:
            for number, batch in slot.batches.items():
                if batch.cancelled_at is None and batch.is_over and slot.worker is not None:
                    self.batcher.cancel(batch, now)
                    slot.worker.send(("cancel", number))
        self._changed.set()

    def _dispatch(self) -> None:
        """Give batches to workers that have nothing to do, and a second one to those that will soon be done."""
        if not self.batcher.waiting:
            return
        now = time.monotonic()
        ready = [slot for slot in self.supervisor.slots if slot.has_settled(self.supervisor.folders)]
        for depth in (0, 1):
            for slot in ready:
                if slot.worker is None or len(slot.batches) > depth or not slot.is_responsive():
                    continue
                if depth and now < slot.next_at and not self.batcher.is_full_batch():
                    continue
                batch = self.batcher.next(slot.loaded)
                if batch is None:
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
        asyncio.get_running_loop().call_later(seconds, self._dispatch)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # ---- what workers answer -----------------------------------------------------------------------------------------

    def on_change(self) -> None:
        """A worker has answered, is there or is gone, or a moment has passed."""
        for model in self.supervisor.folders:
            if problem := self.supervisor.problem(model):
                self.batcher.fail_waiting(Unavailable(problem), model)
        self._dispatch()
        self._changed.set()

    def on_message(self, slot: Slot, message: Message) -> None:
        """A worker has answered: a result, an error, an event or an end."""
        kind, number, *value = message
        slot.deaths = 0
        if number in slot.streams:
            if kind == "event":
                slot.streams[number].events.put_nowait(value[0])
            else:
                slot.streams.pop(number).events.put_nowait(value[0] if kind == "error" else _END)
        elif number in slot.batches:
            self._end_batch(slot, slot.batches.pop(number), kind, *value)

    def _end_batch(self, slot: Slot, batch: Batch, kind: str, value: Any = None) -> None:
        now = time.monotonic()
        if slot.batches:
            self._expect(slot, next(iter(slot.batches.values())), now)
        if kind == "result" or batch.cancelled_at is not None:
            self.batcher.done(batch, now)
        if kind == "result":
            self.metrics.batch(len(batch.items), batch.cost, now - batch.started)
            batch.finish(value)
        elif batch.cancelled_at is None:
            if len(batch.works()) == 1:
                self.batcher.running -= batch.cost
                batch.fail(value)
            else:  # one bad request does not fail those it was put together with
                for work in batch.works():
                    work.is_suspect = True
                self._put_back(batch)

    def on_death(self, slot: Slot) -> None:
        """A worker is gone: try its work again; only what it ran, and not what waited there, may be the cause.

        A worker that was stopped from outside has no cause here.
        """
        batches, streams = list(slot.batches.values()), list(slot.streams.values())
        slot.batches, slot.streams = {}, {}
        for stream in streams:
            stream.events.put_nowait(WorkerFailed())
        for position, batch in enumerate(batches):
            if batch.cancelled_at is not None:
                continue
            for work in batch.works() if position == 0 else ():
                work.attempts += not slot.is_stopped
                work.is_suspect = True
                if work.attempts >= MAX_ATTEMPTS:
                    work.fail(WorkerFailed())
            self._put_back(batch)

    def _put_back(self, batch: Batch) -> None:
        """Queue the units again whose work is not over."""
        self.batcher.running -= sum(unit.cost for unit in batch.units if unit.work.over)
        batch.units = [unit for unit in batch.units if not unit.work.over]
        self.batcher.put_back(batch)


def _api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    assert isinstance(error, Problem)
    return ApiError(400 if error.is_user_error else 500, error.message)
