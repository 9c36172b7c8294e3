"""The run folder: who may train into it, and its lock, so that one process owns it at a time. Torch is not imported.

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
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from filelock import FileLock, Timeout

from harken.errors import UserError
from harken.files import expand_user, refusing, remove_temporaries

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def is_launched() -> bool:
    """Whether this process is a rank of a torchrun job."""
    return all(name in os.environ for name in VARIABLES)


def is_follower() -> bool:
    """Whether it is a rank other than 0, which leaves files and decisions to rank 0."""
    return is_launched() and os.environ["RANK"] != "0"


def is_restarted() -> bool:
    """Whether torchrun started the job again after a failure (`--max-restarts`)."""
    return is_launched() and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"


def launcher() -> list[str]:
    """The beginning of the command that starts the ranks of this machine; empty where torchrun started none."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return ["torchrun", "--nproc-per-node", local, "-m", "harken"] if is_launched() else []


LOCK, RECIPE, MODEL, CARD = ".lock", "recipe.toml", "model.safetensors", "card.md"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
INDEX, PREVIOUS_INDEX = "checkpoint.index.json", "checkpoint.previous.index.json"  # of checkpoints divided by FSDP
OUTPUTS = "outputs"  # of `harken compare --split`
CHECKPOINTS = (CHECKPOINT, PREVIOUS, INDEX, PREVIOUS_INDEX)


class Request(NamedTuple):
    """A request for a run folder: its path, and whether to resume or to restart the run in it."""

    folder: Path
    resume: bool = False
    restart: bool = False
    accept_changed_data: bool = False
    started: float | None = None  # `time.perf_counter()` at which a budget in minutes began


def request(
    out: str | Path, resume: bool, restart: bool, accept_changed_data: bool = False, started: float | None = None
) -> Request:
    """Make a request for a run folder, checked against the rules that need no recipe.

    They are the same for `harken train`, `harken.train` and modules of one's own. A job that torchrun starts again
    after a failure resumes, whatever was asked for; ranks other than 0 leave the folder to rank 0.

    Raises:
        UserError: options that exclude each other, a file in the place of a folder, or a folder that holds something
            and is neither resumed nor started over.
    """
    folder = expand_user(out)
    if resume and restart:
        raise UserError("resume=True continues a run and restart=True deletes it; give one of them")
    if accept_changed_data and not resume:
        raise UserError("accept_changed_data=True only goes with resume=True; leave it out for a new run")
    if is_restarted():
        resume, restart = True, False
    with refusing(folder):
        is_file, is_empty = folder.exists() and not folder.is_dir(), is_empty_dir(folder)
    if is_file:
        raise UserError(f"{folder} is a file; give a folder to train into")
    if not (resume or restart or is_follower() or is_empty):
        raise not_empty(folder)
    return Request(folder, resume, restart, accept_changed_data, time.perf_counter() if started is None else started)


def not_empty(folder: Path) -> UserError:
    """The error on a folder that holds something else than the run that is started."""
    return UserError(
        f"{folder} is not empty; train into a new folder, continue the run in it with resume=True, or delete it with "
        "restart=True"
    )


def is_empty_dir(folder: Path) -> bool:
    """Whether nothing is there that training could overwrite."""
    return not (folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()))


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
            UserError: another process has it, or it cannot be created or written.
        """
        if is_follower():
            return
        self.created = not self.folder.exists()
        with refusing(self.folder, "free some space and continue with resume=True, or choose another place"):
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                self.lock.acquire()
            except Timeout:
                raise UserError(
                    f"{self.folder} is in use by {_owner(self.path)}; wait until it ends, or train into another folder"
                ) from None
            try:
                with suppress(PermissionError):  # Windows: a locked file cannot be written
                    self.path.write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
            except OSError:  # the disk is full
                self.release()
                raise
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
