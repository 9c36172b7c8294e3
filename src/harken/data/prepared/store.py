"""The folder of prepared data: what was made once is found again by its key.

    DIR/NAME-KEY/            rows of a corpus: which line belongs to which part, held-out texts, digests
    DIR/NAME-KEY-KEY/        its tokenizers, or its ids
    DIR/.NAME-KEY.lock       held by the process that makes an entry; others wait for it

A key is a digest of file contents, settings and tokenizers, so a stale entry is never found. An entry is written into a
temporary folder that is renamed when it is complete; what a killed process leaves is removed by the next one. All of it
can be deleted at any time and is made again when needed.

>>> import tempfile
>>> store = Store(Path(tempfile.mkdtemp()))
>>> entry = store.entry("numbers", lambda folder: (folder / "n.txt").write_text("1 2 3"))
>>> (entry / "n.txt").read_text(), store.entry("numbers", lambda folder: 1 / 0) == entry
('1 2 3', True)
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harken.data.io.files import COMPRESSIONS
from harken.errors import UserError
from harken.files import atomic_write, cache_folder, expand_user, sync_folder

FORMAT = 1  # of the entries; part of every key
DONE = "entry.json"
STREAMED_FROM = 64 << 20  # bytes of training text beyond which it is not held in memory
EXPANSION = 4  # of compressed text, about

NOTES: ContextVar[Callable[[str], object]] = ContextVar("NOTES", default=lambda text: None)


def report_to(note: Callable[[str], object]) -> None:
    """Set the function by which this process reports what it prepares, and how far it is."""
    NOTES.set(note)


def note(text: str) -> None:
    """Tell the user."""
    NOTES.get()(text)


def prepared_folder(chosen: str | None, files: Iterable[str | Path]) -> Path | None:
    """The folder of the prepared data of these training files; None where they are small and stay in memory.

    Args:
        chosen: `data.prepared` of the recipe; with it, files of any size are prepared.
    """
    paths = [expand_user(path) for path in files]
    if not paths or not all(path.is_file() for path in paths):  # a pipe can be read only once
        return None
    if chosen is not None:
        return expand_user(chosen)
    size = sum(path.stat().st_size * (EXPANSION if path.suffix in COMPRESSIONS else 1) for path in paths)
    return default_folder() if size > STREAMED_FROM else None


def default_folder() -> Path:
    """The folder of prepared data below the user's cache folder."""
    return cache_folder() / "prepared"


def key_of(*values: Any) -> str:
    """A digest of values that JSON can hold."""
    text = json.dumps([FORMAT, *values], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Store:
    """A folder of entries.

    Raises:
        UserError: the folder that the recipe names cannot be written. The default one is replaced by a folder for
            temporary files where it cannot be written.
    """

    def __init__(self, root: Path) -> None:
        try:
            root.mkdir(parents=True, exist_ok=True)
            probe = root / f".{secrets.token_hex(4)}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as problem:
            reason = problem.strerror or problem
            if root != default_folder():
                raise UserError(
                    f"data.prepared is {root}, which cannot be written ({reason}); choose another folder"
                ) from problem
            user = os.getuid() if hasattr(os, "getuid") else 0  # on Windows the folder is the user's own
            root = Path(tempfile.gettempdir()) / f"harken-prepared-{user}"
            root.mkdir(mode=0o700, exist_ok=True)
            if root.is_symlink() or root.stat().st_uid != user:
                raise UserError(f"{root} belongs to another user; set data.prepared to a folder of yours") from None
            note(f"the user's cache folder cannot be written ({reason}); data is prepared in {root}")
        self.root = root

    def entry(self, name: str, build: Callable[[Path], object]) -> Path:
        """The complete folder of this name; where there is none, `build` fills it, in one process at a time.

        Raises:
            UserError: as `build` raises, or the disk is full.
        """
        path = self.root / name
        if is_complete(path):
            return path
        with self._locked(name):
            if is_complete(path):
                return path
            for leftover in self.root.glob(f".{name}.*.tmp"):
                shutil.rmtree(leftover, ignore_errors=True)
            temporary = self.root / f".{name}.{secrets.token_hex(4)}.tmp"
            try:
                temporary.mkdir()
                build(temporary)
                sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
                atomic_write(temporary / DONE, json.dumps({"format": FORMAT, "files": sizes}) + "\n")
                if path.exists():  # damaged: it was not complete
                    shutil.rmtree(path)
                os.replace(temporary, path)
                sync_folder(self.root)
            except OSError as problem:
                raise UserError(
                    f"{self.root} cannot be written ({problem.strerror or problem}); free some space, or set "
                    "data.prepared to another folder"
                ) from problem
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        return path

    def require_space(self, size: int) -> None:
        """Refuse to begin what cannot be finished.

        Raises:
            UserError: fewer than `size` bytes are free.
        """
        free = shutil.disk_usage(self.root).free
        if free < size:
            raise UserError(
                f"preparing the data takes about {size / 1e9:.1f} GB, but {self.root} has {free / 1e9:.1f} GB left; "
                "free some space, or set data.prepared to another folder"
            )

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        lock = FileLock(self.root / f".{name}.lock", fallback_to_soft=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            note(f"waiting for another process that prepares {name}")
            lock.acquire()
        except OSError:  # a file system without locks: both make the entry, and the rename decides
            pass
        try:
            yield
        finally:
            lock.release()


def is_complete(path: Path) -> bool:
    """Whether an entry is whole: each file has the size that it was written with."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        done = json.loads((path / DONE).read_text(encoding="utf-8"))
        return done["format"] == FORMAT and all(
            (path / name).stat().st_size == size for name, size in done["files"].items()
        )
    return False


def size_of(folder: Path) -> int:
    """Bytes of an entry."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
