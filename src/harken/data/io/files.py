r"""Lines of text files, plain or compressed, read strictly.

A line ends at a line feed and nowhere else, so the Unicode separators that `str.splitlines` would cut at stay inside
their line and two aligned files stay aligned. A carriage return before the line feed and a byte-order mark at the
start of the file are dropped. UTF-16 and lines that end in carriage returns alone are recognised
(`harken.data.io.encodings`). What cannot be read is refused with the file, the line and what to do.

>>> import io
>>> list(decode_lines(io.BytesIO(b"\xef\xbb\xbfone\r\ntwo\n"), "example.txt"))
['one', 'two']
"""

from __future__ import annotations

import bz2
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
from typing import Any, BinaryIO, cast

import numpy as np

from harken.data.io.encodings import as_utf8
from harken.errors import UserError, missing_extra
from harken.files import expand_user, refuse_kernel_file
from harken.paths import IN_MEMORY

STDIN = Path("/dev/stdin")
COMPRESSIONS = (".gz", ".xz", ".bz2", ".zst", ".zip")
DAMAGED = (lzma.LZMAError, zlib.error, zipfile.BadZipFile)  # what unpacking raises
MAX_LINE_BYTES = 1_000_000  # a longer line is nearly always a file that is not text


def ending(path: str | Path) -> str:
    """The ending of a name in small letters, without that of a compression; of a .zip file that of its one member.

    >>> ending("train.TSV.gz"), ending("train.en")
    ('.tsv', '.en')
    """
    path = Path(path)
    if path.suffix not in COMPRESSIONS:
        return path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    if inner or path.suffix != ".zip":
        return inner
    try:
        with zipfile.ZipFile(expand_user(path)) as archive:
            [member] = _members(archive)
            return Path(member).suffix.lower()
    except (OSError, ValueError, zipfile.BadZipFile):
        return ""


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading; compressed files are unpacked on the way.

    Raises:
        UserError: the path is missing, is a folder or may not be read, or an archive has several files.
    """
    path = require_file(path)
    try:
        return cast(BinaryIO, OPENERS.get(path.suffix, open)(path, "rb"))
    except zipfile.BadZipFile as error:
        raise UserError(f"{path} is no valid .zip file ({error}): copy or download the file again.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be opened ({error.strerror or error}): check its permissions.") from error


def _open_zip(path: Path, mode: str) -> BinaryIO:
    archive = zipfile.ZipFile(path)
    members = _members(archive)
    if len(members) != 1:
        archive.close()
        names = ", ".join(members[:5]) or "nothing"
        raise UserError(f"{path} holds {len(members)} files ({names}): unpack it and name one of them.")
    try:
        return cast(BinaryIO, archive.open(members[0]))
    except (RuntimeError, NotImplementedError) as error:  # a password, an unknown method
        raise UserError(f"{path} cannot be unpacked ({error}): unpack it and name the file inside.") from None


def _members(archive: zipfile.ZipFile) -> list[str]:
    """The files of an archive, without the folders and the metadata of macOS."""
    return [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]


def _open_zst(path: Path, mode: str) -> BinaryIO:
    try:
        from compression import zstd  # Python 3.14
    except ImportError:
        try:
            import zstandard as zstd
        except ImportError:
            raise missing_extra("zstandard", "tables", "a .zst file") from None
    return cast(BinaryIO, zstd.open(path, mode))


OPENERS: dict[str, Callable[..., Any]] = {
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".bz2": bz2.open,
    ".zst": _open_zst,
    ".zip": _open_zip,
}


def open_text(path: str | Path, encoding: str = "utf-8") -> BinaryIO:
    """Open a file of text as UTF-8 with line feeds (`harken.data.io.encodings.as_utf8`).

    Raises:
        UserError: as `open_bytes`, or the compressed data is damaged.
    """
    stream = open_bytes(path)
    with readable(str(path), 0):
        return as_utf8(stream, str(path), encoding)


def read_lines(
    path: str | Path,
    max_line_bytes: int = MAX_LINE_BYTES,
    report: Callable[[str], None] | None = None,
    encoding: str = "utf-8",
) -> Iterator[str]:
    """Yield the lines of a file without their ends.

    Raises:
        UserError: as `open_text` and `decode_lines`.
    """
    with open_text(path, encoding) as stream:
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
    except (EOFError, OSError, *DAMAGED) as error:
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


def input_path(path: Path | None) -> Path:
    """The file or folder that a command was given; standard input where it was given none.

    Raises:
        UserError: see `require_file`; or the system has no name for standard input.
    """
    if path is None and not os.path.lexists(STDIN):  # Windows
        raise UserError("standard input cannot be read as a file on this system: name a file.")
    return STDIN if path is None else path if path.is_dir() else require_file(path)


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
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        return os.isatty(handle)
    finally:
        os.close(handle)
