"""Standard input that may pause, such as a terminal or a pipe from a running program.

`available` says whether a line can be read at once, so that what has come is answered before more is waited for.
"""

from __future__ import annotations

import os
import select
import stat
import sys

CHUNK = 2**16


class LiveInput:
    """Lines of a file descriptor, read without reading ahead of what has come.

    >>> read, write = os.pipe()
    >>> _ = os.write(write, b"one\\ntw")
    >>> live = LiveInput(read)
    >>> live.available(0), live.readline(), live.available(0)
    (True, b'one\\n', False)
    >>> os.close(write)
    >>> live.available(0), live.readline(), live.readline()
    (True, b'tw', b'')
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer that hold no line feed
        self._ended = False

    def available(self, seconds: float) -> bool:
        """Whether a line, or the end, can be read within so many seconds."""
        while not self._has_line():
            if not select.select([self._descriptor], [], [], seconds)[0]:
                return False
            self._read()
        return True

    def readline(self, limit: int = -1) -> bytes:
        """The next line with its line feed, or its first `limit` bytes; nothing at the end."""
        while not self._has_line() and not 0 <= limit <= len(self._buffer):
            self._read()
        end = self._buffer.find(b"\n", 0, limit if limit >= 0 else None) + 1
        end = end or (len(self._buffer) if limit < 0 else min(limit, len(self._buffer)))
        line = bytes(self._buffer[:end])
        del self._buffer[:end]
        self._searched = 0
        return line

    def _has_line(self) -> bool:
        has_line = self._buffer.find(b"\n", self._searched) >= 0
        if not has_line:
            self._searched = len(self._buffer)
        return has_line or self._ended

    def _read(self) -> None:
        chunk = os.read(self._descriptor, CHUNK)
        self._ended = not chunk
        self._buffer += chunk


def live_stdin() -> LiveInput | None:
    """Standard input, if it is a terminal, a pipe or a socket on a system where these can be waited for."""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError, AttributeError):  # closed, or no file of the system, as in a test
        return None
    can_pause = stat.S_ISCHR(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return LiveInput(descriptor) if can_pause and os.name == "posix" else None
