r"""Lines of text files, plain or compressed, read strictly.

A line ends at a line feed and nowhere else, so the Unicode separators that `str.splitlines` would cut at stay inside
their line and two aligned files stay aligned. A carriage return before the line feed and a byte-order mark at the
start of the file are dropped. What cannot be read is refused with the file, the line and what to do.

>>> import io
>>> list(decode_lines(io.BytesIO(b"\xef\xbb\xbfone\r\ntwo\n"), "example.txt"))
['one', 'two']
"""

from __future__ import annotations

import codecs
import difflib
import gzip
import io
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from harken.errors import UserError
from harken.files import expand_user, refuse_kernel_file
from harken.paths import IN_MEMORY

COMPRESSIONS = (".gz", ".xz")
DAMAGED = (lzma.LZMAError, zlib.error, zipfile.BadZipFile)  # what unpacking raises
MAX_LINE_BYTES = 1_000_000  # a longer line is nearly always a file that is not text


def ending(path: str | Path) -> str:
    """The ending of a name in small letters, without .gz or .xz.

    >>> ending("train.TSV.gz"), ending("train.en")
    ('.tsv', '.en')
    """
    path = Path(path)
    return (Path(path.stem).suffix if path.suffix in COMPRESSIONS else path.suffix).lower()


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading; `.gz` and `.xz` are unpacked on the way.

    Raises:
        UserError: the path is missing, is a folder or may not be read.
    """
    path = require_file(path)
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        return path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be opened ({error.strerror or error}): check its permissions.") from error


def read_lines(
    path: str | Path, max_line_bytes: int = MAX_LINE_BYTES, report: Callable[[str], None] | None = None
) -> Iterator[str]:
    """Yield the lines of a file without their ends.

    Raises:
        UserError: as `open_bytes` and `decode_lines`, or the compressed data is damaged.
    """
    with open_bytes(path) as stream:
        yield from decode_lines(stream, str(path), max_line_bytes, report)


def decode_lines(
    stream: BinaryIO,
    name: str,
    max_line_bytes: int = MAX_LINE_BYTES,
    report: Callable[[str], None] | None = None,
    first: int = 1,
) -> Iterator[str]:
    """Yield the lines of an open byte stream; `name` is what errors call it.

    Args:
        first: the number of the first line in its file.
        report: called with a sentence for each line that is not UTF-8, whose wrong bytes are then replaced by U+FFFD;
            None refuses the line.

    Raises:
        UserError: a line is not UTF-8 or longer than `max_line_bytes`, or the compressed data is damaged.
    """
    number = first - 1
    while True:
        number += 1
        line = _read_line(stream, name, number, max_line_bytes)
        if not line:
            return
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            if not line:
                return
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(line) > max_line_bytes:
            raise line_too_long(name, number, max_line_bytes)
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = (
                f"{name}, line {number} is not valid UTF-8 (byte 0x{line[error.start]:02x} at byte {error.start + 1} "
                "of the line)"
            )
            if report is None:
                raise UserError(f"{problem}: convert the file to UTF-8, for example with iconv.") from error
            report(f"{problem}; wrong bytes are replaced")
            yield line.decode("utf-8", errors="replace")


def line_too_long(name: str, number: int, max_line_bytes: int) -> UserError:
    """The error on a line beyond the limit."""
    return UserError(
        f"{name}, line {number} is longer than {max_line_bytes:,} bytes: "
        "break the line up, or raise data.max_line_bytes if it is meant."
    )


def _read_line(stream: BinaryIO, name: str, number: int, max_line_bytes: int) -> bytes:
    with readable(name, number - 1):
        return stream.readline(max_line_bytes + 8)  # room for the byte-order mark and the line's end


@contextmanager
def readable(name: str, lines: int) -> Iterator[None]:
    """Turn an error of reading or unpacking into one sentence; `lines` were read before.

    Raises:
        UserError: the file cannot be read, or its compressed data is damaged.
    """
    try:
        yield
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, EOFError):
            problem = "ends in the middle of its compressed data"
        elif isinstance(error, OSError) and not isinstance(error, gzip.BadGzipFile):
            problem = f"cannot be read ({error.strerror or error})"
        else:
            problem = "is not valid compressed data"
        raise UserError(f"{name} {problem} after line {lines}: copy or download the file again.") from error


def read_arrays(path: str | Path, remedy: str = "write it with numpy.savez") -> dict[str, np.ndarray]:
    """The arrays of a NumPy file by their names; the one of an .npy file is called `values`. Nothing is unpickled.

    Raises:
        UserError: the file is missing, damaged or no NumPy file.
    """
    path = require_file(path)
    try:
        with open_bytes(path) as stream:
            packed = path.suffix in COMPRESSIONS  # NumPy seeks in its files
            stored = np.load(io.BytesIO(stream.read()) if packed else stream, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                return {"values": stored}
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, AttributeError, KeyError, EOFError, *DAMAGED) as problem:
        raise UserError(f"{path} is no plain NumPy file ({problem}); {remedy}") from None


def require_file(path: str | Path) -> Path:
    """The path with `~` expanded, if it is a file, a pipe, a terminal or `/dev/null`.

    Raises:
        UserError: it is a folder, a device or a file of /proc (some have no end), or it does not exist; names like it
            in the same folder are suggested.
    """
    path = expand_user(path)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = 0
    except (OSError, ValueError) as error:  # ValueError: a NUL character
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{path} cannot be opened ({reason}): check the path and its permissions.") from error
    if stat.S_ISDIR(mode):
        raise UserError(f"{path} is a folder where a file is wanted: name a file in it.")
    if stat.S_ISBLK(mode) or stat.S_ISSOCK(mode) or (stat.S_ISCHR(mode) and not _ends(path)):
        raise UserError(f"{path} is a device, not a regular file: name a file.")
    if mode:
        refuse_kernel_file(path)
        return path
    if path.name.startswith(IN_MEMORY):
        raise UserError(f"the data was {path.name}, which no file holds: give files instead.")
    folder = path.parent
    if not folder.is_dir():
        raise UserError(f"{path} does not exist, nor does the folder {folder}: check the path.")
    raise UserError(f"{path} does not exist: {suggestion(path)}")


def suggestion(path: Path) -> str:
    """A remedy for a file that does not exist: names like it in the same folder, or to check the path."""
    if not path.parent.is_dir():
        return f"nor does the folder {path.parent}; check the path."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = [name for name in names if Path(name).suffix in COMPRESSIONS and Path(name).stem == path.name]
    near += [name for name in difflib.get_close_matches(path.name, names, n=3, cutoff=0.6) if name not in near]
    return f"did you mean {' or '.join(near[:3])}?" if near else "check the path."


def _ends(path: Path) -> bool:
    """Whether reading a character device comes to an end: a terminal or `/dev/null`."""
    if os.path.realpath(path) == os.devnull:
        return True
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)
