"""Fewer system calls for an answer: its head and its body leave in one write.

uvicorn writes them one after the other, and each write wakes the client. Here writes of one turn of the event loop are
joined. The protocol is uvicorn's own, by httptools where that is installed, else by h11.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol


class JoinedWrites:
    """A transport that writes what it was given since the last turn of the event loop.

    What is not written here (reading, closing state, addresses) is that of the transport itself.
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


class HttpProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's HTTP over `JoinedWrites`."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(JoinedWrites(transport))
