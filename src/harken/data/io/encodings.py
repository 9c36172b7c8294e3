r"""Text files of other encodings and line ends as UTF-8 with line feeds.

    UTF-8                   as it is; the byte-order mark is for the reader of lines to drop
    UTF-16, UTF-32          by their byte-order mark; UTF-16 also by its NUL bytes
    carriage returns alone  as older Macs end lines: they become line feeds
    anything else           by its name (`data.encoding`)

>>> import io
>>> as_utf8(io.BytesIO("één\r\n".encode("utf-16")), "a.txt").read().decode()
'één\r\n'
>>> as_utf8(io.BytesIO(b"caf\xe9"), "a.txt", "latin-1").read().decode()
'café'
>>> as_utf8(io.BytesIO(b"one\rtwo\r"), "a.txt").read()
b'one\ntwo\n'
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from harken.errors import UserError

CHUNK_BYTES = 1 << 18
HEAD_BYTES = 1 << 13
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as UTF-16's
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


PRINTABLE = bytes(byte for byte in range(256) if (byte >= 32 and byte != 127) or byte in b"\t\n\v\f\r\x1b")


class ChunkStream(io.RawIOBase):
    """Chunks of bytes as a stream."""

    def __init__(self, chunks: Iterable[bytes], source: BinaryIO) -> None:
        self.chunks, self.source, self.rest = iter(chunks), source, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self.rest:
            chunk = next(self.chunks, None)
            if chunk is None:
                return 0
            self.rest = chunk
        count = min(len(buffer), len(self.rest))
        buffer[:count] = self.rest[:count]
        self.rest = self.rest[count:]
        return count

    def close(self) -> None:
        self.source.close()
        super().close()


def buffered(chunks: Iterable[bytes], source: BinaryIO) -> BinaryIO:
    """A buffered stream of chunks; closing it closes `source`, which they come from."""
    return cast(BinaryIO, io.BufferedReader(ChunkStream(chunks, source), CHUNK_BYTES))


def chunks_of(stream: BinaryIO) -> Iterator[bytes]:
    """The rest of a stream in chunks."""
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def as_utf8(stream: BinaryIO, name: str, encoding: str = "utf-8") -> BinaryIO:
    """The text of a stream as UTF-8; the stream itself where it needs no change.

    Args:
        name: what errors call it.
        encoding: by its name; `utf-8` means UTF-8, or UTF-16 or UTF-32 where the first bytes show it.

    Raises:
        UserError: there is no such encoding.
    """
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES] if hasattr(stream, "peek") else stream.read(HEAD_BYTES)
    known = encoding_name(encoding)
    if known == "utf-8":
        known = detect_wide(head) or known
    is_mac = b"\r" in head and b"\n" not in head
    source = stream if hasattr(stream, "peek") else buffered(_chain(head, stream), stream)
    if known == "utf-8" and not is_mac:
        return source
    return buffered(_transcode(chunks_of(source), name, known, is_mac), source)


def encoding_name(encoding: str) -> str:
    """The usual name of an encoding.

    Raises:
        UserError: there is no such encoding.
    """
    try:
        known = codecs.lookup(encoding)
        if not known._is_text_encoding:  # hex, zlib ...
            raise LookupError
    except LookupError:
        raise UserError(f'data.encoding is "{encoding}", which is no encoding; use utf-8, utf-16 or latin-1') from None
    return "utf-8" if known.name == "utf-8-sig" else known.name


def detect_wide(head: bytes) -> str | None:
    """`utf-16`, `utf-16-le`, `utf-16-be` or `utf-32` where the first bytes of a file show it.

    >>> detect_wide("a,b".encode("utf-16-le")), detect_wide(b"a,b"), detect_wide(b"a\\0\\0\\0\\0b")
    ('utf-16-le', None, None)
    """
    for mark, encoding in MARKS:
        if head.startswith(mark):
            return encoding
    even, odd = head[::2], head[1::2]
    if len(head) >= 4 and 2 * odd.count(0) > len(odd) and not even.count(0):
        return "utf-16-le"
    if len(head) >= 4 and 2 * even.count(0) > len(even) and not odd.count(0):
        return "utf-16-be"
    return None


def guess_encoding(sample: bytes) -> str:
    """`utf-8`; `cp1252`, the usual one of older Windows programs, or `latin-1` where most lines cannot be UTF-8.

    A file with control characters is no text, so nothing is guessed of it.

    >>> guess_encoding("één".encode()), guess_encoding("één".encode("cp1252"))
    ('utf-8', 'cp1252')
    """
    if sample.translate(None, PRINTABLE):
        return "utf-8"
    valid = invalid = 0
    for line in sample.split(b"\n"):
        if not line.isascii():
            try:
                line.decode("utf-8")
                valid += 1
            except UnicodeDecodeError:
                invalid += 1
    if invalid <= valid + 1 and not (invalid and not valid):  # one damaged line, or a last one that is cut
        return "utf-8"
    return "latin-1" if any(byte in sample for byte in b"\x81\x8d\x8f\x90\x9d") else "cp1252"


def _chain(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    yield head
    yield from chunks_of(stream)


def _transcode(chunks: Iterator[bytes], name: str, encoding: str, is_mac: bool) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in chunks:
            text = decoder.decode(chunk)
            yield (text.replace("\r", "\n") if is_mac else text).encode("utf-8", "surrogatepass")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not encoded as {encoding} ({error.reason}); set data.encoding") from None
