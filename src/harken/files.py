"""Writing files so that a kill, a power cut or a full disk leaves the old content or the new one, never half of it.

Everything harken writes goes through `atomic_write` or `atomic_path`: a temporary file in the same folder, fsync,
rename, fsync of the folder. Symbolic links are followed, so the link stays and its target gets the new content.
Character devices and pipes (`/dev/stdout`, `/dev/null`, a FIFO) are streamed to; anything else that is no regular file
is refused.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> atomic_write(folder / "note.txt", "one line\\n").read_text()
'one line\\n'
>>> [path.name for path in folder.iterdir()]
['note.txt']
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TextIO

from harken.errors import UserError

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.tmp")  # what `atomic_path` calls its files until they are complete


def atomic_write(path: Path | str, content: str | bytes) -> Path:
    """Replace the content of a file, or create it; returns the path.

    Raises:
        UserError: the place cannot be written, or is no file.
    """
    data = content.encode() if isinstance(content, str) else content
    target = output_target(Path(path))
    if is_stream(target):
        with refusing(target), open(target, "wb", buffering=0) as stream:
            view = memoryview(data)
            while view:
                view = view[stream.write(view) or 0 :]
        return Path(path)
    with atomic_path(target) as temporary:
        temporary.write_bytes(data)
    return Path(path)


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """A temporary file to be written inside the block; it replaces `path` when the block ends without an error.

    Raises:
        UserError: the place cannot be written, or is no regular file.
    """
    target = output_target(Path(path))
    if is_stream(target):
        raise UserError(f"{path} is a device or a pipe, but a file is needed here; choose another place")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    with refusing(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            with open(temporary, "rb") as written:
                os.fsync(written.fileno())
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
            sync_folder(target.parent)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise


@contextmanager
def atomic_folder(path: Path | str) -> Iterator[Path]:
    """A temporary folder to be filled inside the block; it becomes `path` when the block ends without an error.

    Raises:
        UserError: `path` is not an empty folder, or cannot be written.
    """
    target = expand_user(path).absolute()
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UserError(f"{path} is not empty; choose another folder")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with refusing(target):
            temporary.mkdir(parents=True)
        yield temporary
        with refusing(target):
            os.replace(temporary, target)
            sync_folder(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def open_output(path: Path | str) -> Iterator[TextIO]:
    """A text file to be written line by line inside the block.

    A regular file appears under its name when the block ends without an error; a device or a pipe gets every line.

    Raises:
        UserError: the place cannot be written.
    """
    target = output_target(Path(path))
    if is_stream(target):
        with refusing(target), open(target, "w", encoding="utf-8", buffering=1) as stream:
            yield stream
        return
    with atomic_path(target) as temporary, open(temporary, "w", encoding="utf-8") as file:
        yield file
        file.flush()


def cache_folder() -> Path:
    """The user's folder for what harken can make again: that of XDG_CACHE_HOME, or ~/.cache.

    For a user without a home, such as a number in a container, it is one that cannot be written.
    """
    root = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(root) if root else Path("~/.cache").expanduser()) / "harken"
    except RuntimeError:
        return Path(os.devnull) / "harken"


def expand_user(path: Path | str) -> Path:
    """The path with a leading `~` or `~user` replaced by the home folder.

    Raises:
        UserError: there is no such user, or the path holds a NUL character.
    """
    if "\0" in str(path):
        raise UserError(f"{path} holds a NUL character, which no file name can have; choose another name")
    try:
        return Path(path).expanduser()
    except RuntimeError as problem:
        raise UserError(f"{path} names a user that does not exist on this machine; write the path in full") from problem


def output_target(path: Path) -> Path:
    """Where a write to `path` ends up: symbolic links are followed.

    Raises:
        UserError: a folder, a socket, a block device, or links that lead in a circle.
    """
    path = expand_user(path)
    try:
        target = Path(os.path.realpath(path, strict=False))
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except (OSError, ValueError) as problem:  # ValueError: a NUL character
        reason = getattr(problem, "strerror", None) or problem
        raise UserError(f"{path} cannot be written ({reason}); choose another place") from problem
    if stat.S_ISDIR(mode):
        raise UserError(f"{path} is a folder, but a file is to be written; give a file name")
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)):
        raise UserError(f"{path} is neither a file nor a stream, so it is left alone; choose another place")
    return target


def refuse_kernel_file(path: Path) -> None:
    """Refuse the files of /proc: they claim to be empty regular files, and some never end or block for ever.

    Pipes behind /proc/self/fd (`<(command)` in a shell) are no files of /proc themselves, so they pass.

    Raises:
        UserError: it is one.
        OSError: there is no such file.
    """
    status = path.stat()
    if stat.S_ISREG(status.st_mode) and _proc_device() == status.st_dev:
        raise UserError(f"{path} is a view of the kernel, not a data file; copy what you need from it to a file")


@cache
def _proc_device() -> int | None:
    try:
        return os.stat("/proc/self/stat").st_dev
    except OSError:
        return None


def read_limited(path: Path, limit: int) -> bytes:
    """The content of a small file; an endless stream or a file that cannot be what was asked for is refused.

    Raises:
        UserError: more than `limit` bytes, or a file of the kernel.
        OSError: it cannot be read.
    """
    refuse_kernel_file(path)
    with open(path, "rb") as source:
        content = source.read(limit + 1)
    if len(content) > limit:
        raise UserError(f"{path} has more than {limit:,} bytes, so it is not the file this needs; check the path")
    return content


def is_stream(path: Path) -> bool:
    """Whether this is a character device or a FIFO, which takes bytes but cannot be replaced."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def remove_temporaries(folder: Path) -> None:
    """Remove what a killed process left behind; call it only while holding the folder."""
    for path in folder.glob(".*.tmp"):
        if TEMPORARY.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, where the system allows it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those of a new file under the user's umask."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


@contextmanager
def refusing(target: Path, remedy: str = "free some space or choose another place") -> Iterator[None]:
    """Turn an error of the file system into one sentence."""
    try:
        yield
    except OSError as problem:
        raise UserError(f"{target} cannot be written ({problem.strerror}); {remedy}") from problem
