"""Fingerprints of input files: size, number of lines and SHA-256, and what has changed since, in words.

A folder, or the recordings or pictures that a table names, has one fingerprint, of the sorted relative names, sizes and
contents of its files. Pipes and devices have none: to read them is to use them up.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "train.en"
>>> _ = path.write_text("one\\ntwo\\n")
>>> before = fingerprint(InputFile("data.source", path))
>>> _ = path.write_text("one\\n")
>>> describe_change("train.en", before, fingerprint(InputFile("data.source", path)))
'train.en has 1 line where the run was started on 2'
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.data.io.files import COMPRESSIONS
from harken.data.prepared.store import default_folder, key_of
from harken.errors import UserError
from harken.files import atomic_write

BLOCK = 1 << 20
REMEMBERED_FROM = 64 << 20  # bytes


@dataclass(frozen=True)
class InputFile:
    """Something that a run reads."""

    key: str  # of the recipe
    path: Path  # a file, or a folder
    name: str = ""  # tells the files of one key apart: those of a folder or a pattern
    members: tuple[str, ...] | None = None  # of a folder: the files that are read, relative to it; None: all


@dataclass(frozen=True)
class Fingerprint:
    """The fingerprint of an input file."""

    sha256: str
    bytes: int
    lines: int | None = None  # of a text file that is not compressed
    files: int | None = None  # of a folder


def fingerprint(source: InputFile) -> Fingerprint | None:
    """Read the file, or the files of a folder; None where there is nothing, or a pipe or device.

    Raises:
        UserError: it cannot be read.
    """
    try:
        mode = os.stat(source.path).st_mode
        if stat.S_ISREG(mode):
            return _of_file(source.path)
        if stat.S_ISDIR(mode):
            return _of_files(source.path, source.members)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UserError(f"{source.path} ({source.key}) cannot be read ({reason}); check its permissions") from problem
    return None


def describe_change(name: str, before: Fingerprint, after: Fingerprint | None) -> str:
    """The differences, in one clause; empty where nothing does."""
    if after is None:
        return f"{name} is missing"
    if before.sha256 == after.sha256:
        return ""
    for unit in ("files", "lines", "bytes"):
        old, new = getattr(before, unit), getattr(after, unit)
        if old is not None and new is not None and old != new:
            noun = unit[:-1] if new == 1 else unit
            return f"{name} has {new:,} {noun} where the run was started on {old:,}"
    size = f"{before.lines:,} lines" if before.lines is not None else f"{before.bytes:,} bytes"
    return f"{name} has other content than the run was started on, of the same size ({size})"


def _of_file(path: Path) -> Fingerprint:
    """The fingerprint of a file; that of a large one is remembered in the user's cache, by inode, size and times of
    modification and change."""
    status = os.stat(path)
    if status.st_size < REMEMBERED_FROM:
        return _read_file(path)
    known = [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    cache_file = default_folder().parent / "fingerprints" / f"{key_of(str(path.resolve()))}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(cache_file.read_text(encoding="utf-8"))
        if stored["file"] == known:
            return Fingerprint(**stored["fingerprint"])
    file_fingerprint = _read_file(path)
    with suppress(UserError, OSError):
        atomic_write(cache_file, json.dumps({"file": known, "fingerprint": vars(file_fingerprint)}) + "\n")
    return file_fingerprint


def _read_file(path: Path) -> Fingerprint:
    digest, count, lines, last = hashlib.sha256(), 0, 0, b"\n"
    is_text = path.suffix not in COMPRESSIONS

    def read(block: bytes) -> None:
        nonlocal count, lines, last, is_text
        count += len(block)
        is_text = is_text and b"\0" not in block
        if is_text:
            lines, last = lines + block.count(b"\n"), block[-1:]

    _hash_into(digest, path, read)
    return Fingerprint(digest.hexdigest(), count, lines + (last != b"\n") if is_text else None)


def _of_files(folder: Path, members: Sequence[str] | None) -> Fingerprint:
    digest, count, files = hashlib.sha256(), 0, 0
    for name in sorted(set(_walk(folder) if members is None else members)):
        path = folder / name
        if not path.is_file():
            continue
        size = path.stat().st_size
        digest.update(f"{len(os.fsencode(name))}:{size}:".encode() + os.fsencode(name))
        _hash_into(digest, path)
        count, files = count + size, files + 1
    return Fingerprint(digest.hexdigest(), count, files=files)


def _hash_into(digest: Any, path: Path, also: Callable[[bytes], None] | None = None) -> None:
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            if also is not None:
                also(block)


def _walk(folder: Path) -> Iterator[str]:
    """Names of all files below a folder, hidden ones aside."""
    for directory, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(directory, name), folder)
