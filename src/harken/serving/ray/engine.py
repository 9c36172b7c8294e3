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
        self.is_healthy = False
        self._died, self._streams, self._stopping = died, 0, False
        self._watcher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask for the state of the replicas from now on; `/health` waits for the first one."""
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
        call = {
            "model": work.model,
            "operation": work.operation,
            "options": work.options,
            "items": work.items,
            "client": work.client,
            "costs": list(work.costs),
            "whole": work.whole,
        }
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
                    self.metrics.count("worker_restarts")
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

    async def stream(self, model: str, operation: str, options: dict[str, Any], item: Any) -> AsyncIterator[Any]:
        """The events of a stream, as they come; leaving the loop cancels it.

        Raises:
            ApiError: as `submit`; also where its replica dies.
        """
        self._check_stopping()
        if self._streams >= self.settings.streams:
            self.metrics.count("rejected")
            raise QueueFull(1)
        self._streams += 1
        answers = self.handle.options(stream=True).stream.remote(model, operation, options, item)
        ended = False
        try:
            async with asyncio.timeout(self.settings.timeout):
                async for kind, value in answers:
                    if kind == "error":
                        ended = True
                        raise error_of(*value)
                    yield value
                ended = True
        except TimeoutError:
            raise DeadlinePassed(self.settings.timeout) from None
        except self._died:
            ended = True
            raise WorkerFailed() from None
        finally:
            self._streams -= 1
            if not ended:
                answers.cancel()

    def _check_stopping(self) -> None:
        if self._stopping:
            raise ApiError(503, "the server is stopping", 5)

    async def _watch(self) -> None:
        """Keep `is_healthy` and `facts` up to date."""
        while True:
            try:
                state = await self._ask(self.handle.state.remote(), STATE_TIMEOUT)
                self.is_healthy, self.problem = state["healthy"], state["problem"]
                self.facts = state["facts"] or self.facts
            except Exception as error:  # whatever it is, requests may be answered again later
                log.warning("no replica tells its state (%s)", type(error).__name__)
                self.is_healthy, self.problem = False, "no replica answers"
            await asyncio.sleep(STATE_SECONDS)
