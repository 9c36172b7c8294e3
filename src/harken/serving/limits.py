"""Limits of what clients may send: bytes of a body, requests a minute, characters in all.

>>> clock = iter([0.0, 0.0, 0.0, 31.0]).__next__
>>> rates = Rates(clock)
>>> [rates.wait("alice", 2) for _ in range(4)]    # two a minute: the third has to wait, half a minute later it may
[0.0, 0.0, 30.0, 0.0]
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from harken.serving.errors import ApiError
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving.access")
MOST_CLIENTS = 10_000  # whose rates and characters are remembered


class Rates:
    """A token bucket for every client: full at the start, refilled evenly over a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait(self, client: str, per_minute: int) -> float:
        """Take a token and return 0, or return the seconds until there is one."""
        now = self._clock()
        tokens, before = self._buckets.pop(client, (float(per_minute), now))
        tokens = min(float(per_minute), tokens + (now - before) * per_minute / 60)
        wait = 0.0 if tokens >= 1 else (1 - tokens) * 60 / per_minute
        self._buckets[client] = (tokens - 1 if tokens >= 1 else tokens, now)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Usage:
    """Characters that clients have sent since the server was started."""

    def __init__(self) -> None:
        self.characters: Counter[str] = Counter()

    def add(self, client: str, characters: int, limit: int | None) -> bool:
        """Count characters, unless they exceed the client's limit; whether they were counted."""
        if limit is not None and self.characters[client] + characters > limit:
            return False
        self.characters[client] += characters
        if len(self.characters) > MOST_CLIENTS:
            del self.characters[next(iter(self.characters))]
        return True


class Guard:
    """ASGI middleware around everything: refuses large bodies, counts and times requests, logs without text.

    A path is logged without its query string, which may carry a text to translate.
    """

    def __init__(self, app: Any, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, read = time.perf_counter(), 500, 0
        limit = self.settings.max_body

        async def limited() -> Any:
            nonlocal read
            message = await receive()
            if message["type"] == "http.request":
                read += len(message.get("body", b""))
                if read > limit:
                    raise ApiError(413, f"the request is larger than {limit:,} bytes; send less at a time")
            return message

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, limited, watched)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, seconds)
            if self.settings.access_log:
                client = (scope.get("client") or ("-",))[0]
                log.info("%s %s %s %d %.0f ms", client, scope["method"], route, status, 1000 * seconds)
