"""Limits of what clients may send: bytes of a body, requests a minute, characters in all; host names.

A web page can make its own name point to this machine (DNS rebinding) and then read what a server here answers. Such
requests have the page's name in their `Host` header, so a server on the loopback address answers only to its own.

>>> clock = iter([0.0, 0.0, 0.0, 31.0]).__next__
>>> rates = Rates(clock)
>>> [rates.wait("alice", 2) for _ in range(4)]    # two a minute: the third has to wait, half a minute later it may
[0.0, 0.0, 30.0, 0.0]
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any

from harken.serving.errors import ApiError, QuotaExceeded, error_response
from harken.serving.keys import Client
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving.access")
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
MAX_CLIENTS = 10_000  # whose rates and characters are remembered


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
        while len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return wait


class Usage:
    """Characters that clients have sent since the server was started."""

    def __init__(self) -> None:
        self.characters: Counter[str] = Counter()

    def add(self, client: Client, characters: int) -> None:
        """Count characters.

        Raises:
            QuotaExceeded: they exceed the client's limit, and are not counted.
        """
        if client.characters is not None and self.characters[client.name] + characters > client.characters:
            raise QuotaExceeded
        self.characters[client.name] += characters
        if len(self.characters) > MAX_CLIENTS:
            del self.characters[next(iter(self.characters))]

    def take_back(self, client: Client, characters: int) -> None:
        """Undo `add`, as a request has failed."""
        self.characters[client.name] -= characters


def hosts_of(address: str, names: Sequence[str] = ()) -> list[str] | None:
    """The host names that a server at an address answers to; None: all.

    Args:
        names: further ones, such as that of a reverse proxy.

    >>> hosts_of("127.0.0.1", ["Translate.example.org"])
    ['localhost', '127.0.0.1', '[::1]', 'translate.example.org']
    >>> hosts_of("0.0.0.0"), hosts_of("0.0.0.0", ["a.org"])
    (None, ['localhost', '127.0.0.1', '[::1]', 'a.org'])
    """
    return [*LOOPBACK_HOSTS, *map(str.lower, names)] if names or is_loopback(address) else None


def is_loopback(address: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    if address == "localhost":
        return True
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a `Host` header, without its port.

    >>> host_of("LOCALHOST:5000"), host_of("[::1]:5000"), host_of("a.org."), host_of("")
    ('localhost', '[::1]', 'a.org', '')
    """
    name, colon, port = header.strip().lower().rpartition(":")
    return (name if colon and not port.endswith("]") else header.strip().lower()).rstrip(".")


class Guard:
    """ASGI middleware around everything: refuses other hosts and large bodies, counts and times, logs without text.

    A path is logged without its query string, which may carry a text to translate.
    """

    def __init__(self, app: Any, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._hosts = None if settings.allowed_hosts is None else frozenset(settings.allowed_hosts)

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
            if self._hosts is not None and (host := _host(scope)) not in self._hosts:
                message = f"this server does not answer to the host name {host[:100]!r}; --allowed-host adds a name"
                await error_response(scope["path"], ApiError(400, message))(scope, limited, watched)
            else:
                await self.app(scope, limited, watched)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, seconds)
            if self.settings.access_log:
                client = (scope.get("client") or ("-",))[0]
                log.info("%s %s %s %d %.0f ms", client, scope["method"], route, status, 1000 * seconds)


def _host(scope: Any) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            return host_of(value.decode("latin-1"))
    return ""
