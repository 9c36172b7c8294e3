"""A replica of the models in Ray Serve: the engine of one machine, with one worker process.

Calls of the server on the head node come in by `submit` and `stream`. They wait, are batched by tokens and run as on
one machine: the queue is bounded, clients get equal shares, a worker process that dies is started again. Errors for
the client are values, so that Ray neither wraps nor logs them.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from harken.errors import UserError
from harken.serving.engine.batching import Work
from harken.serving.engine.engine import Engine
from harken.serving.errors import ApiError, QueueFull, Unavailable
from harken.serving.registry import Registry
from harken.serving.settings import ServerSettings

Answer = tuple[str, Any]  # ("results", list), ("event", value) or ("error", (status, message, retry_after))


class ModelReplica:
    """All models in one process of a cluster.

    Args:
        models: folders as in `create_app`.
        settings: those of the server; models run in one worker process of this replica.
    """

    def __init__(self, models: Sequence[str], settings: dict[str, Any]) -> None:
        self.settings = ServerSettings(**{**settings, "workers": 1})
        self.registry = Registry(models)
        self.engine = Engine(self.registry.folders, self.settings)
        self._refusal: str | None = None  # why the models cannot be loaded
        self._started: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def problem(self) -> str | None:
        """Why no request will be answered soon."""
        return self._refusal or self.engine.problem

    async def ready(self) -> None:
        """Load the models, once; where that fails, `problem` says why."""
        if self._started is None:
            self._started = asyncio.create_task(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        try:
            await self.engine.start()
        except UserError as error:
            self._refusal = str(error)  # told by `state`: a replica that raises is only started again
            return
        if self.settings.reload_seconds:
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Load models again whose folder has changed; every replica does it for itself."""
        while True:
            await asyncio.sleep(self.settings.reload_seconds)
            for model in await asyncio.to_thread(self.registry.changed):
                self.engine.reload(model.name, model.folder)

    async def state(self) -> dict[str, Any]:
        """Whether requests are answered, and what is told of every model."""
        await self.ready()
        return {"ready": self.engine.is_ready, "problem": self.problem, "facts": self.engine.facts}

    async def submit(self, call: dict[str, Any], seconds: float) -> Answer:
        """The results of a work.

        Args:
            call: the arguments of a `Work`.
        """
        started = time.monotonic()
        await self.ready()
        if self.problem:
            return _failed(Unavailable(self.problem))
        try:
            return "results", await self.engine.submit(Work(**call), max(0.01, seconds - time.monotonic() + started))
        except ApiError as error:
            return _failed(error)

    async def stream(self, call: dict[str, Any], seconds: float) -> AsyncIterator[Answer]:
        """The events of a stream; the arguments are those of `submit`."""
        await self.ready()
        if self.problem:
            yield _failed(Unavailable(self.problem))
            return
        events = self.engine.stream(Work(**call), seconds)
        try:
            async for event in events:
                yield "event", event
        except ApiError as error:
            yield _failed(error)
        finally:
            with contextlib.suppress(RuntimeError):
                await events.aclose()  # type: ignore[attr-defined]

    async def check_health(self) -> None:
        """Called by Ray Serve: the replica gets requests after the first call, and is replaced where one raises."""
        was_ready = self._started is not None and self._started.done() and self.engine.facts
        await self.ready()
        if was_ready and self.problem:
            raise RuntimeError(self.problem)

    async def __del__(self) -> None:
        """Called by Ray Serve when the requests of the replica have been answered."""
        if self._watcher is not None:
            self._watcher.cancel()
        await self.engine.stop(1.0)


def _failed(error: ApiError) -> Answer:
    return "error", (error.status, error.message, error.retry_after)


def error_of(status: int, message: str, retry_after: float | None) -> ApiError:
    """The error of a replica, on the side of the server.

    >>> error_of(429, "the server is busy; try again later", 2).headers
    {'Retry-After': '2'}
    """
    return QueueFull(retry_after or 1) if status == 429 else ApiError(status, message, retry_after)
