"""`RayEngine`: in the place of `Engine` in the server, it sends work to the replicas of a Ray Serve deployment.

A request whose replica or node dies is sent to another one, until its deadline. That answers nothing twice: the results
of a call that failed are dropped, and operations change nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harken.serving.engine.batching import Work
from harken.serving.errors import ApiError, DeadlinePassed, QueueFull, WorkerFailed
from harken.serving.metrics import Metrics
from harken.serving.ray.replica import error_of
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving")
MAX_ATTEMPTS = 5  # replicas that may die over a request
PAUSE = 0.5  # seconds before a request is sent again: Ray needs them to notice that a replica is gone
STATE_SECONDS = 2.0  # between two questions to a replica
STATE_TIMEOUT = 10.0  # for an answer to such a question


class RayEngine:
    """Runs work on the replicas behind a handle; the methods are those of `Engine`.

    Args:
        handle: a `DeploymentHandle` of `ModelReplica`.
        died: the exceptions of a handle that mean that a replica is gone.
    """

    def __init__(
        self,
        handle: Any,
        folders: Mapping[str, Path],
        settings: ServerSettings,
        metrics: Metrics,
        died: tuple[type[Exception], ...],
    ) -> None:
        self.handle, self.folders, self.settings, self.metrics = handle, dict(folders), settings, metrics
        self.batcher = SimpleNamespace(waiting=0)  # tokens that were sent to replicas and are not answered
        self.facts: dict[str, dict[str, Any]] = {}
        self.problem: str | None = None
        self.is_live, self.is_ready = True, False
        self._died, self._streams, self._stopping = died, 0, False
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask for the state of the replicas from now on; `/ready` waits for the first one."""
        self._watcher = asyncio.create_task(self._watch())

    async def stop(self, seconds: float | None = None) -> None:
        """Take no more requests; Ray Serve waits for those that run before it stops this process."""
        self._stopping = True
        if self._watcher is not None:
            self._watcher.cancel()

    def reload(self, name: str, folder: Path) -> None:
        """Replicas look at their folders themselves."""

    async def submit(self, work: Work, seconds: float | None = None) -> list[Any]:
        """The results of a work, one for each item.

        Raises:
            ApiError: there is no room, no time, or an error in the request or the server.
        """
        self._check_stopping()
        if not work.items:
            return []
        limit = min(seconds or self.settings.timeout, self.settings.timeout)
        deadline = time.monotonic() + limit
        call = call_of(work)
        cost = sum(work.costs)
        self.batcher.waiting += cost
        try:
            for _ in range(MAX_ATTEMPTS):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise DeadlinePassed(limit)
                try:
                    kind, value = await self._ask(self.handle.submit.remote(call, left), left)
                except TimeoutError:
                    raise DeadlinePassed(limit) from None
                except self._died as error:
                    self.metrics.restart("replica")
                    log.warning("a replica is gone (%s); its request is sent again", type(error).__name__)
                    await asyncio.sleep(min(PAUSE, max(0.0, deadline - time.monotonic())))
                    continue
                if kind == "results":
                    results: list[Any] = value
                    return results
                failure = error_of(*value)
                if isinstance(failure, QueueFull):
                    self.metrics.count("rejected")
                raise failure
            raise WorkerFailed()
        finally:
            self.batcher.waiting -= cost

    async def _ask(self, response: Any, seconds: float) -> Any:
        """The answer of a replica; a call that is not waited for any more is cancelled there."""
        try:
            async with asyncio.timeout(seconds):
                return await response
        except (TimeoutError, asyncio.CancelledError):
            response.cancel()
            raise

    async def stream(self, work: Work, seconds: float | None = None) -> AsyncIterator[Any]:
        """The events of a work with one item, as they come; leaving the loop cancels it.

        A stream whose replica dies before its first event is sent to another one, once.

        Raises:
            ApiError: as `submit`; also where its replica dies.
        """
        self._check_stopping()
        if self._streams >= self.settings.streams:
            self.metrics.count("rejected")
            raise QueueFull(1)
        self._streams += 1
        limit = min(seconds or self.settings.timeout, self.settings.timeout)
        deadline, has_begun = time.monotonic() + limit, False
        try:
            for attempt in (1, 2):
                try:
                    async for event in self._events(work, deadline):
                        has_begun = True
                        yield event
                    return
                except self._died:
                    self.metrics.restart("replica")
                    if has_begun or attempt == 2:
                        raise WorkerFailed() from None
        except TimeoutError:
            raise DeadlinePassed(limit) from None
        finally:
            self._streams -= 1

    async def _events(self, work: Work, deadline: float) -> AsyncIterator[Any]:
        """The events of a stream on one replica.

        Raises:
            TimeoutError: its deadline has passed.
        """
        remaining = deadline - time.monotonic()
        answers = self.handle.options(stream=True).stream.remote(call_of(work), remaining)
        events, has_ended = aiter(answers), False
        try:
            while True:
                async with asyncio.timeout(deadline - time.monotonic()):
                    answer = await anext(events, None)
                if answer is None or answer[0] == "error":
                    has_ended = True
                if answer is None:
                    return
                kind, value = answer
                if kind == "error":
                    raise error_of(*value)
                yield value
        except self._died:
            has_ended = True
            raise
        finally:
            if not has_ended:
                answers.cancel()

    def _check_stopping(self) -> None:
        if self._stopping:
            raise ApiError(503, "the server is stopping", 5)

    async def _watch(self) -> None:
        """Keep `is_ready` and `facts` up to date."""
        while True:
            try:
                state = await self._ask(self.handle.state.remote(), STATE_TIMEOUT)
                self.is_ready, self.problem = state["ready"], state["problem"]
                self.facts = state["facts"] or self.facts
            except Exception as error:  # whatever it is, requests may be answered again later
                log.warning("no replica tells its state (%s)", type(error).__name__)
                self.is_ready, self.problem = False, "no replica answers"
            await asyncio.sleep(STATE_SECONDS)


def call_of(work: Work) -> dict[str, Any]:
    """The arguments of a `Work`, as they travel to a replica."""
    names = ("model", "operation", "options", "items", "client", "whole", "is_continued")
    return {**{name: getattr(work, name) for name in names}, "costs": list(work.costs)}
