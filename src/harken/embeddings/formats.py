r"""Vector files of other tools: word2vec's text and binary, GloVe's text; plain or `.gz` or `.xz`.

    word2vec-text     "V D", then a line a word: the word and D numbers
    word2vec-binary   "V D", then the word, a blank and D float32 for each
    glove             as word2vec-text without the first line

The format is detected from the beginning of the file. Binary entries may end in a line feed, which some tools omit.

>>> import tempfile
>>> from harken.embeddings.vectors import WordVectors
>>> file = Path(tempfile.mkdtemp()) / "two.txt"
>>> write_vectors(WordVectors(["a", "b"], [[1, 0.5], [0, -2]]), file, "word2vec-text")
>>> file.read_text()
'2 2\na 1 0.5\nb 0 -2\n'
>>> read_vectors(file).vector("b").tolist()
[0.0, -2.0]
"""

from __future__ import annotations

import gzip
import lzma
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from harken.data.io.files import open_bytes
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.files import atomic_path, expand_user

FORMATS = ("word2vec-text", "word2vec-binary", "glove")
FASTTEXT = (793712314).to_bytes(4, "little")  # which fastText writes first into a .bin file


def read_vectors(path: str | Path, form: str | None = None) -> WordVectors:
    """Read a vector file; `form` overrides the detected format.

    Raises:
        UserError: the file is missing, no vector file, or damaged.
    """
    path = expand_user(path)
    with open_bytes(path) as stream:
        try:
            first = stream.readline(10_000)
            if first.startswith(FASTTEXT):
                raise UserError(f"{path} is a model of fastText in binary form: give its .vec file.")
            header = _header(first)
            form = form or _guess(stream, header)
            _require_form(form)
            if form == "glove":
                return _finish(path, *_read_text(path, stream, first, None))
            if header is None:
                raise UserError(f'{path}, line 1 is not "WORDS DIMENSIONS": is this a file of {form}?')
            if form == "word2vec-text":
                return _finish(path, *_read_text(path, stream, b"", header))
            return _finish(path, *_read_binary(path, stream, *header))
        except (EOFError, OSError, lzma.LZMAError) as error:
            raise UserError(f"{path} is damaged ({error}): copy or download it again.") from error


def write_vectors(vectors: WordVectors, path: str | Path, form: str) -> None:
    """Write a vector file, compressed where it ends in `.gz` or `.xz`.

    Raises:
        UserError: there is no such format, or a word has a blank in it.
    """
    _require_form(form)
    path = expand_user(path)
    odd = next((word for word in vectors.words if len(word.split()) != 1), None)
    if odd is not None:
        raise UserError(f"The word {odd!r} has a blank in it, which {form} cannot hold: leave it out first.")
    if not path.parent.is_dir():
        raise UserError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    with atomic_path(path) as temporary, _open_to_write(temporary, path.suffix) as sink:
        if form != "glove":
            sink.write(f"{len(vectors)} {vectors.width}\n".encode())
        if form == "word2vec-binary":
            _write_binary(sink, vectors.words, vectors.matrix)
        else:
            for word, row in zip(vectors.words, vectors.matrix, strict=True):
                sink.write(f"{word} {' '.join(map('{:.9g}'.format, row.tolist()))}\n".encode())


def _open_to_write(path: Path, suffix: str) -> BinaryIO:
    if suffix == ".gz":
        return cast(BinaryIO, gzip.open(path, "wb"))
    return cast(BinaryIO, lzma.open(path, "wb")) if suffix == ".xz" else path.open("wb")


def _require_form(form: str) -> None:
    if form not in FORMATS:
        raise UserError(f'format is "{form}", which is unknown: use {", ".join(FORMATS[:-1])} or {FORMATS[-1]}.')


def _header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        return int(parts[0]), int(parts[1])
    return None


def _guess(stream: BinaryIO, header: tuple[int, int] | None) -> str:
    """Text if the line after the header is a word followed by numbers."""
    if header is None:
        return "glove"
    position = stream.tell()
    line = stream.readline(header[1] * 40 + 1000)
    stream.seek(position)
    try:
        parts = line.decode("utf-8").split()
        [float(part) for part in parts[1:3]]
    except ValueError:
        return "word2vec-binary"
    return "word2vec-text" if len(parts) > 1 else "word2vec-binary"


def _read_text(
    path: Path, stream: BinaryIO, first: bytes, header: tuple[int, int] | None
) -> tuple[list[str], NDArray[np.float32]]:
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    width = header[1] if header else None
    offset = 2 if header else 1
    begun = first if first.endswith(b"\n") or not first else first + stream.readline(LONGEST_LINE)
    for number, raw in enumerate(_lines(begun, stream), offset):
        try:
            line = raw.decode("utf-8").rstrip("\r\n ")
        except UnicodeDecodeError as error:
            raise UserError(f"{path}, line {number} is not valid UTF-8: convert the file to UTF-8.") from error
        if not line:
            continue
        word, _, numbers = line.partition(" ")
        row = _numbers(numbers)
        if width is None:
            width = 0 if row is None else len(row)
            if width == 0:
                raise UserError(f"{path}, line 1 is not a word and its numbers: give a file of {', '.join(FORMATS)}.")
        if row is None or len(row) != width:
            word, row = _from_the_right(f"{path}, line {number}", line, width)
        words.append(word)
        rows.append(row)
    if header and len(words) != header[0]:
        raise UserError(
            f"{path} says it has {header[0]:,} words and has {len(words):,}: copy it again, or fix its first line."
        )
    return words, np.stack(rows) if rows else np.zeros((0, width or 0), dtype=np.float32)


def _from_the_right(where: str, line: str, width: int) -> tuple[str, NDArray[np.float32]]:
    """The last `width` numbers, for words that have blanks in them."""
    word, *numbers = line.rsplit(" ", width)
    row = _numbers(" ".join(numbers))
    whole = _numbers(line.partition(" ")[2])
    if (whole is not None and len(whole) != width) or len(numbers) != width:
        count = len(whole) if whole is not None else len(line.split(" ")) - 1
        raise UserError(f"{where} has {count} numbers where {width} are wanted: fix or drop that line.")
    if row is None:
        raise UserError(f"{where} has something among its numbers that is none: fix or drop that line.")
    return word, row


def _lines(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    if first:
        yield first
    yield from stream


def _numbers(text: str) -> NDArray[np.float32] | None:
    """The numbers of a text, or None where something in it is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (DeprecationWarning, ValueError):
            return None


def _finish(path: Path, words: list[str], matrix: NDArray[np.float32]) -> WordVectors:
    if not words:
        raise UserError(f"{path} has no vectors in it: give a file that does.")
    bad = np.flatnonzero(~np.isfinite(matrix).all(1))
    if len(bad):
        raise UserError(f'{path}: the vector of "{words[bad[0]]}" (word {bad[0] + 1}) has a number that is not finite.')
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        first.setdefault(word, number)
    if len(first) < len(words):  # the first of a word that is there twice is the one to keep
        words, matrix = list(first), matrix[list(first.values())]
    return WordVectors(words, matrix, card={"from": path.name})


BLOCK = 1 << 22  # bytes that are read at once
LONGEST_WORD = 10_000  # bytes
LONGEST_LINE = 10_000_000  # bytes: of a vector of hundreds of thousands of numbers


def _read_binary(path: Path, stream: BinaryIO, size: int, width: int) -> tuple[list[str], NDArray[np.float32]]:
    """Read everything after the header line.

    Raises:
        UserError: the file ends too early, or a word is not UTF-8.
    """
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    length = 4 * width
    buffer, position = b"", 0
    for number in range(1, size + 1):
        while True:
            while buffer[position : position + 1] == b"\n":
                position += 1
            blank = buffer.find(b" ", position)
            if blank >= 0 and len(buffer) >= blank + 1 + length:
                break
            more = stream.read(BLOCK)
            if not more:
                raise UserError(
                    f"{path} ends inside word {number:,} of {size:,} (so says line 1): copy or download it again."
                )
            buffer, position = buffer[position:] + more, 0
        if blank - position > LONGEST_WORD:
            raise UserError(f"{path}: word {number:,} is {blank - position:,} bytes long: is this a file of word2vec?")
        try:
            words.append(buffer[position:blank].decode("utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(
                f"{path}: word {number:,} of {size:,} is not valid UTF-8: is the file damaged, or its first line wrong?"
            ) from error
        rows.append(np.frombuffer(buffer, dtype="<f4", count=width, offset=blank + 1))
        position = blank + 1 + length
    matrix = np.stack(rows).astype(np.float32) if rows else np.zeros((0, width), dtype=np.float32)
    return words, matrix


def _write_binary(sink: BinaryIO, words: list[str], matrix: NDArray[np.float32]) -> None:
    """Write everything after the header line."""
    for word, row in zip(words, matrix, strict=True):
        sink.write(word.encode() + b" " + row.astype("<f4").tobytes() + b"\n")
