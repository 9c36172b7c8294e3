"""HTTP connections: uvicorn's protocol with limits in time and number, and one write for an answer.

A connection has `header_seconds` to send the head of a request, `body_seconds` to send its body and to read an answer,
and `idle_seconds` between two requests. Past `connections` open ones, the one that has been idle for longest is closed
for a new one; where none is idle, the new one gets 503. The protocol is uvicorn's own, by httptools where that is
installed, else by h11.
"""

from __future__ import annotations

import asyncio
import re
from http import HTTPStatus
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from harken.serving.settings import ServerSettings

BARE_NEWLINE = re.compile(rb"(?<!\r)\n")
HEAD_END = b"\r\n\r\n"


class JoinedWrites:
    """A transport that writes what it was given since the last turn of the event loop: fewer system calls.

    uvicorn writes head and body of an answer one after the other, and each write wakes the client. What is not written
    here (reading, closing state, addresses) is that of the transport itself.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._parts = transport, list[bytes]()
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep data until the next turn."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Write what is left, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class BoundedConnections:
    """A mixin of uvicorn's protocols: one connection, in one of four phases.

    idle: nothing was sent since the last answer; head and body: a request is being sent; busy: it is being answered.
    """

    config: HttpConfig
    connections: set[Any]
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: Any

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._phase, self._head_tail = "idle", b""
        super().connection_made(JoinedWrites(transport))  # type: ignore[misc]
        if len(self.connections) > self.config.settings.connections and not self._close_an_idle_connection():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        self.config.idle[self] = None
        self._start_timer(self.config.settings.header_seconds)  # uvicorn waits for ever for the first request

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        self.config.idle.pop(self, None)
        for timer in (self._timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)  # type: ignore[misc]

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        if self.transport.is_closing():
            return
        if not self._is_in_request() and self._has_bare_newline(data):
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        super().data_received(data)  # type: ignore[misc]
        if self._is_in_request():
            self._enter_request()
        else:
            self._enter("head", self.config.settings.header_seconds)

    def on_response_complete(self) -> None:
        """An answer was written; uvicorn closes the connection after `idle_seconds`."""
        super().on_response_complete()  # type: ignore[misc]
        if self._is_in_request():  # the next one was sent together with it
            self._enter_request()
        else:
            self._enter("idle", None)

    def pause_writing(self) -> None:
        """The client does not read its answer."""
        super().pause_writing()  # type: ignore[misc]
        self._write_timer = self.loop.call_later(self.config.settings.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        if self._write_timer is not None:
            self._write_timer.cancel()
        super().resume_writing()  # type: ignore[misc]

    def _is_in_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _enter_request(self) -> None:
        if self.cycle.more_body:
            self._enter("body", self.config.settings.body_seconds)
        else:
            self._enter("busy", None)

    def _enter(self, phase: str, seconds: float | None) -> None:
        if phase == self._phase:
            return
        self._phase = phase
        self.config.idle.pop(self, None)
        if phase in ("idle", "head") and not self.transport.is_closing():
            self.config.idle[self] = None
        self._start_timer(seconds)

    def _start_timer(self, seconds: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        if self._phase == "body" and self.cycle.response_started:
            self.transport.close()
        else:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)

    def _close_an_idle_connection(self) -> bool:
        for connection in self.config.idle:
            connection.transport.close()
            del self.config.idle[connection]
            return True
        return False

    def _has_bare_newline(self, data: bytes) -> bool:
        """Whether a line of a head ends without a carriage return, which other servers may read differently."""
        known, text = len(self._head_tail), self._head_tail + data
        end = text.find(HEAD_END)
        self._head_tail = text[-len(HEAD_END) :] if end < 0 else b""
        return BARE_NEWLINE.search(text, known, len(text) if end < 0 else end) is not None

    def _refuse(self, status: HTTPStatus) -> None:
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", "Content-Length: 0", "Connection: close"]
        if status is HTTPStatus.SERVICE_UNAVAILABLE:
            lines.append("Retry-After: 1")
        self.transport.write("\r\n".join([*lines, "", ""]).encode())
        self.transport.close()


class HttpProtocol(BoundedConnections, AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's HTTP with `BoundedConnections`."""


class HttpConfig(uvicorn.Config):
    """The configuration of uvicorn for a server.

    Args:
        protocol: `BoundedConnections` of one of uvicorn's protocols.
    """

    def __init__(self, app: Any, settings: ServerSettings, protocol: type[Any] = HttpProtocol) -> None:
        self.settings = settings
        self.idle: dict[BoundedConnections, None] = {}  # those that may be closed, the longest idle first
        super().__init__(
            app,
            http=protocol,
            ws="none",
            log_level="warning",
            access_log=False,  # uvicorn's would have query strings, which may carry texts
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=settings.trusted_proxies,
            timeout_keep_alive=max(1, round(settings.idle_seconds)),
            timeout_graceful_shutdown=int(settings.stop_seconds) or 1,
            server_header=False,
        )
