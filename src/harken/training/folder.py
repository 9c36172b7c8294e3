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

from filelock import FileLock, Timeout

from harken.errors import UserError
from harken.files import remove_temporaries
from harken.training.launched import is_follower

LOCK = ".lock"


class RunLock:
    """An exclusive lock on a folder, with pid and host for the message another process gets.

    The operating system releases it when the process ends, however it ends, so a lock is never stale: a file left by a
    killed process is locked again, and a forked worker does not keep the lock of its parent (`filelock`). Ranks of
    `torchrun` other than 0 leave the folder to rank 0.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.created = folder, folder / LOCK, False
        self.lock = FileLock(self.path, timeout=0, fallback_to_soft=False)

    def acquire(self) -> None:
        """Take the folder and remove temporary files of killed processes.

        Raises:
            UserError: another process has it.
        """
        if is_follower():
            return
        self.created = not self.folder.exists()
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self.lock.acquire()
        except Timeout:
            raise UserError(
                f"{self.folder} is in use by {_owner(self.path)}; wait until it ends, or train into another folder"
            ) from None
        with suppress(OSError):  # Windows: a locked file cannot be written
            self.path.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
        remove_temporaries(self.folder)

    def release(self) -> None:
        """Give the folder free; the lock file goes with it."""
        if not self.lock.is_locked:
            return
        with suppress(PermissionError):  # Windows: `filelock` removes it
            self.path.unlink(missing_ok=True)
        self.lock.release()
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


def _owner(path: Path) -> str:
    try:
        owner: Any = json.loads(path.read_text(encoding="utf-8"))
        return f"process {int(owner['pid'])} on {str(owner['host'])[:100]}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"
