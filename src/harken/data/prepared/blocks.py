r"""Whole lines of files, a megabyte at a time, as bytes; two aligned files side by side.

The process that reads does little more than find line feeds; decoding is for the processes that get the blocks.

>>> import tempfile
>>> from pathlib import Path
>>> folder = Path(tempfile.mkdtemp())
>>> _ = (folder / "a.en").write_bytes(b"one\ntwo\n"), (folder / "a.fr").write_bytes(b"un\r\ndeux")
>>> block = next(read_blocks([(str(folder / "a.en"), str(folder / "a.fr"))]))
>>> block.size, block.lines(0), block.lines(1)
(2, ['one', 'two'], ['un', 'deux'])
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from harken.data.io.files import MAX_LINE_BYTES, decode_lines, line_too_long, open_text, readable
from harken.data.io.formats import unequal_lines

BLOCK_BYTES = 1 << 20
NEWLINE = ord("\n")


class Block(NamedTuple):
    """As many whole lines of each of the files."""

    files: tuple[str, ...]
    first: int  # the number of the first line in its file, from 1
    size: int  # lines
    texts: tuple[bytes, ...]  # each line ended by a line feed

    def lines(self, side: int) -> list[str]:
        """The decoded lines of one file, without their ends.

        Raises:
            UserError: a line is not UTF-8.
        """
        try:
            text = self.texts[side].decode("utf-8")
        except UnicodeDecodeError:
            stream = io.BytesIO(self.texts[side])
            return list(decode_lines(stream, self.files[side], len(self.texts[side]), first=self.first))
        lines = text.split("\n")
        lines.pop()  # what follows the last line feed
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


class LineReader:
    """One file; `ready` lines are in the buffer."""

    def __init__(self, path: str, max_line_bytes: int) -> None:
        self.path, self.max_line_bytes = path, max_line_bytes
        self.stream = open_text(path)
        self.buffer = bytearray()
        self.ends = np.zeros(0, dtype=np.int64)  # of the lines in the buffer
        self.given = 0  # lines given out
        self.finished = False

    @property
    def ready(self) -> int:
        """Whole lines that can be taken."""
        return len(self.ends)

    def fill(self, size: int = BLOCK_BYTES) -> None:
        """Read until the buffer holds `size` bytes and a whole line, or the file ends.

        Raises:
            UserError: the file cannot be read, or a line is too long.
        """
        searched = len(self.buffer)
        begins = self.given == 0 and not searched
        while not self.finished and (len(self.buffer) < size or not self.ready):
            with readable(self.path, self.given + self.ready):
                read = self.stream.read(size)
            if begins:
                read, begins = read.removeprefix(codecs.BOM_UTF8), False
            if not read:
                self.finished = True
                if self.buffer and self.buffer[-1] != NEWLINE:
                    self.buffer += b"\n"
            self.buffer += read
            added = np.frombuffer(bytes(self.buffer[searched:]), dtype=np.uint8)
            self.ends = np.concatenate([self.ends, np.flatnonzero(added == NEWLINE) + searched + 1])
            searched = len(self.buffer)
            self._check_lengths()

    def _check_lengths(self) -> None:
        starts = np.concatenate([[0], self.ends])
        lengths = np.diff(np.append(starts, len(self.buffer)))
        for line in np.flatnonzero(lengths > self.max_line_bytes):
            start = int(starts[line])
            text = bytes(self.buffer[start : start + int(lengths[line])]).removesuffix(b"\n").removesuffix(b"\r")
            if len(text) > self.max_line_bytes:
                raise line_too_long(self.path, self.given + int(line) + 1, self.max_line_bytes)

    def take(self, count: int) -> bytes:
        """The next `count` lines, which are ready."""
        end = int(self.ends[count - 1])
        text = bytes(self.buffer[:end])
        del self.buffer[:end]
        self.ends = self.ends[count:] - end
        self.given += count
        return text

    def close(self) -> None:
        """Close the file."""
        self.stream.close()


def read_blocks(
    files: Sequence[tuple[str, ...]], max_line_bytes: int = MAX_LINE_BYTES, size: int = BLOCK_BYTES
) -> Iterator[Block]:
    """The lines of files one after another; the files of one tuple are aligned line by line.

    Raises:
        UserError: a file cannot be read, a line is too long, or aligned files have unequal numbers of lines.
    """
    for group in files:
        readers = [LineReader(path, max_line_bytes) for path in group]
        try:
            yield from _aligned(group, readers, size)
        finally:
            for reader in readers:
                reader.close()


def _aligned(group: tuple[str, ...], readers: list[LineReader], size: int) -> Iterator[Block]:
    while True:
        for reader in readers:
            reader.fill(size)
        count = min(reader.ready for reader in readers)
        if not count:
            break
        first = readers[0].given + 1
        yield Block(group, first, count, tuple(reader.take(count) for reader in readers))
    if any(reader.ready for reader in readers):
        for reader in readers:
            while reader.ready:
                reader.take(reader.ready)
                reader.fill(size)
        raise unequal_lines(group[0], readers[0].given, group[1], readers[1].given)
