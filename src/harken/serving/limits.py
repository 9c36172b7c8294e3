"""Limits of what clients may send: bytes of a body, requests a minute, characters in all; host names and origins.

A web page can make its own name point to this machine (DNS rebinding) and then read what a server here answers. Such
requests have the page's name in their `Host` header, so a server on the loopback address answers only to its own. A
page can also send requests without reading the answers; those have its name in their `Origin` header.

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
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from starlette.requests import ClientDisconnect

from harken.errors import UserError
from harken.serving.errors import (
    ApiError,
    BodyTooLarge,
    MissingKey,
    QuotaExceeded,
    WrongKey,
    describe_internal_error,
    error_response,
)
from harken.serving.keys import Client, Keys
from harken.serving.metrics import Metrics
from harken.serving.settings import ServerSettings

log = logging.getLogger("harken.serving.access")
internal_log = logging.getLogger("harken.serving")
HTTP_VERSIONS = ("1.0", "1.1", "2", "3")
ONCE = (b"host", b"content-length", b"origin")  # headers that two parsers may choose differently where there are two
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


def require_keys(address: str, api_keys: Path | None, no_keys: bool) -> None:
    """Refuse to serve everybody by accident.

    Raises:
        UserError: others reach the address, and neither keys nor their absence were asked for.
    """
    if api_keys is not None and no_keys:
        raise UserError("--api-keys and --no-keys contradict each other; give one of them")
    if api_keys is None and not no_keys and not is_loopback(address):
        raise UserError(
            f"{address} can be reached by others; give --api-keys FILE, so that requests need a key, or --no-keys"
        )


def host_of(header: str) -> str:
    """The name in a `Host` header, without its port.

    >>> host_of("LOCALHOST:5000"), host_of("[::1]:5000"), host_of("a.org."), host_of("")
    ('localhost', '[::1]', 'a.org', '')
    """
    name, colon, port = header.strip().lower().rpartition(":")
    return (name if colon and not port.endswith("]") else header.strip().lower()).rstrip(".")


class Callers:
    """Who sends a request, by the keys of a server, and whether that client is within its rate."""

    def __init__(self, settings: ServerSettings) -> None:
        self.keys, self._rates, self._limit = Keys(settings.api_keys), Rates(), settings.rate_limit

    def identify(self, request: Request, key: str | None = None) -> Client:
        """The client, by a key that a parameter gives or the header: `Authorization: Bearer KEY`, or `DeepL-Auth-Key`.

        Raises:
            ApiError: a key is wrong or missing, or the client is past its rate.
        """
        scheme, _, value = request.headers.get("authorization", "").partition(" ")
        if not key and scheme.lower() in ("bearer", "deepl-auth-key"):
            key = value.strip()
        address = request.client.host if request.client else "unknown"
        client = self.keys.client(key, address)
        if client is None:
            raise WrongKey if key else MissingKey
        limit = client.per_minute or self._limit
        if limit is not None and (wait := self._rates.wait(client.name, limit)):
            raise ApiError(429, f"Slowdown: more than {limit} requests a minute", wait)
        return client


class Exchange:
    """A request and its answer as a route reads and writes them: a bounded body; no body in the answer to HEAD."""

    def __init__(self, receive: Any, send: Any, max_body: int, is_head: bool) -> None:
        self._receive, self._send, self._left, self._max = receive, send, max_body, max_body
        self._is_head = is_head
        self.status = 0  # of the answer, once it has begun
        self.error: ApiError | None = None  # the body was too large, whatever the route makes of that

    async def receive(self) -> Any:
        """A part of the request.

        Raises:
            ApiError: it is too large.
        """
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                self.error = BodyTooLarge(self._max)
                raise self.error
        return message

    async def send(self, message: Any) -> None:
        """A part of the answer."""
        if self.error is not None and not self.status:
            return
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self._is_head:
            message = {**message, "body": b""}
        await self._send(message)


class Guard:
    """ASGI middleware around everything: refuses what no route may see, counts and times, logs without text.

    Refused are other hosts and origins, bodies that are too large or framed in two ways, and other versions of HTTP. A
    HEAD request is answered like GET, without the body. An error that no route expected is 500, and its traceback is
    logged without its message, which may carry a text of the request; a path is logged as its route.
    """

    def __init__(self, app: Any, settings: ServerSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._hosts = None if settings.allowed_hosts is None else frozenset(settings.allowed_hosts)
        self._origins = frozenset(origin.lower().rstrip("/") for origin in settings.cors)
        self._public = None if settings.public_url is None else urlsplit(settings.public_url.lower())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        exchange = Exchange(receive, send, self.settings.max_body, is_head=scope["method"] == "HEAD")
        error = self._refusal(scope, headers)
        scope = self._trusted(scope, headers)
        started = time.perf_counter()
        try:
            if error is None:
                await self.app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            log.debug("a client left before its request was complete")
            exchange.status = exchange.status or 499
        except Exception as problem:
            if not isinstance(problem, ApiError):
                internal_log.error("%s", describe_internal_error(problem))
            error = problem if isinstance(problem, ApiError) else ApiError(500, "internal error")
        finally:
            seconds = time.perf_counter() - started
            error = exchange.error or error
            status = exchange.status or (500 if error is None else error.status)
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.request(route, status, seconds)
            if self.settings.access_log:
                client = (scope.get("client") or ("-",))[0]
                log.info("%s %s %s %d %.0f ms", client, scope["method"], route, status, 1000 * seconds)
        if error is not None and not exchange.status:
            exchange.error = None
            await error_response(scope["path"], error)(scope, receive, exchange.send)

    def _refusal(self, scope: Any, headers: dict[bytes, bytes]) -> ApiError | None:
        """The reason why no route may see a request; None where there is none."""
        if scope["http_version"] not in HTTP_VERSIONS:
            return ApiError(400, "this version of HTTP is not supported; use HTTP/1.1")
        length = headers.get(b"content-length")
        if length is not None and b"transfer-encoding" in headers:
            return ApiError(400, "a request has Content-Length or Transfer-Encoding, not both")
        names = [name for name, _ in scope["headers"]]
        if len(headers) < len(names) and any(names.count(name) > 1 for name in ONCE):
            return ApiError(400, "a request has one Host, one Content-Length and one Origin")
        host = host_of(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts is not None and host not in self._hosts and not (self._public and host == self._public.hostname):
            return ApiError(
                400, f"this server does not answer to the host name {host[:100]!r}; --allowed-host adds a name"
            )
        if self._is_foreign(scope["method"], headers):
            return ApiError(403, "requests of web pages of another origin are refused; --cors adds an origin")
        if length is not None and (len(length) > 15 or int(length) > self.settings.max_body):
            return BodyTooLarge(self.settings.max_body)
        return None

    def _is_foreign(self, method: str, headers: dict[bytes, bytes]) -> bool:
        """Whether a browser sends a request for a page of another origin; other clients send no `Origin`.

        A link to a page of this server is followed from anywhere.
        """
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin:
            hosts = [headers.get(b"host", b"").decode("latin-1").lower()]
            hosts += [] if self._public is None else [self._public.netloc]
            is_own = origin in [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
            return not is_own and origin not in self._origins and "*" not in self._origins
        is_link = method in ("GET", "HEAD") and headers.get(b"sec-fetch-mode") == b"navigate"
        return headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin") and not is_link

    def _trusted(self, scope: Any, headers: dict[bytes, bytes]) -> Any:
        """The scope for routes: its `Host`, of which addresses in answers are made, is no free choice of a client.

        It is that of `public_url`, else one that was checked or is this machine, else the address of the connection.
        HEAD is GET for routes.
        """
        scope = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        if self._public is not None:
            scheme, host = self._public.scheme, self._public.netloc
        else:
            name = host_of(headers.get(b"host", b"").decode("latin-1"))
            address, port = scope.get("server") or ("", None)
            if self._hosts is not None or name in LOOPBACK_HOSTS or port is None:
                return scope
            scheme, host = scope["scheme"], f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        others = [(name, value) for name, value in scope["headers"] if name != b"host"]
        return {**scope, "scheme": scheme, "headers": [(b"host", host.encode()), *others]}
