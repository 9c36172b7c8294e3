"""The run folder: one process owns it at a time.

>>> import tempfile
>>> folder = Path(tempfile.mkdtemp())
>>> with RunLock(folder):
...     (folder / ".lock").exists()
True
>>> (folder / ".lock").exists()
False
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from harken.errors import UserError
from harken.files import remove_temporaries
from harken.training.launched import is_follower

LOCK = ".lock"
_held: WeakSet[RunLock] = WeakSet()


class RunLock:
    """An exclusive lock on a folder, with pid and host for the message another process gets.

    The operating system releases it when the process ends, however it ends, so a lock is never stale: a file left by a
    killed process is taken over. Ranks of `torchrun` other than 0 leave the folder to rank 0.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.handle, self.created = folder, -1, False

    def acquire(self) -> None:
        """Take the folder and remove temporary files of killed processes.

        Raises:
            UserError: another process has it.
        """
        if is_follower():
            return
        import fcntl

        self.created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / LOCK
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = _owner(handle)
                os.close(handle)
                raise UserError(
                    f"{self.folder} is in use by {owner}; wait until it ends, or train into another folder"
                ) from None
            if path.exists() and os.fstat(handle).st_ino == path.stat().st_ino:
                break
            os.close(handle)  # the owner removed this file between our open and our lock
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode(), 0)
        self.handle = handle
        _held.add(self)
        remove_temporaries(self.folder)

    def release(self) -> None:
        """Give the folder free; the lock file goes with it."""
        if self.handle < 0:
            return
        (self.folder / LOCK).unlink(missing_ok=True)
        os.close(self.handle)
        self.handle = -1
        if self.created:  # nothing was written: leave no empty folder
            with suppress(OSError):
                self.folder.rmdir()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _owner(handle: int) -> str:
    try:
        found: Any = json.loads(os.pread(handle, 4096, 0))
        return f"process {int(found['pid'])} on {str(found['host'])[:100]}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"


def _forget_in_child() -> None:
    """A forked worker must not keep its parent's lock alive after the parent was killed."""
    for lock in list(_held):
        if lock.handle >= 0:
            os.close(lock.handle)
            lock.handle = -1


os.register_at_fork(after_in_child=_forget_in_child)
