"""Checkpoints: all that a run needs to go on after a kill.

A checkpoint holds tensors (weights and buffers, their average, the optimizer's state, carried states) and a JSON state
(step, position in the data, best score, time) in one safetensors file: reading it can run no code, and a kill at any
moment leaves either the old checkpoint or the new one. The last two are kept, so that a damaged file costs some steps,
not the run. Random state needs no entry: every step seeds it from (seed, step, worker).
"""

from __future__ import annotations

import json
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor

from harken.errors import UserError
from harken.training.checkpoints.progress import CHECKPOINT, PREVIOUS, Checkpoint, Progress
from harken.training.checkpoints.shards import INDEX, PREVIOUS_INDEX, load_shards, remove_shards
from harken.training.checkpoints.tensors import load_tensors, save_tensors


def save_checkpoint(folder: Path, tensors: dict[str, Tensor], progress: Progress, settings: dict[str, Any]) -> None:
    """Write a checkpoint; the one before it stays as `checkpoint.previous.safetensors`.

    Args:
        settings: what must not change for the run to be resumed: seed, batch size, precision ...
    """
    path, previous = folder / CHECKPOINT, folder / PREVIOUS
    state = json.dumps({"progress": asdict(progress), "settings": settings})
    if path.is_file():
        link = folder / f".{PREVIOUS}.{os.getpid():08x}.tmp"
        with suppress(OSError):  # a file system without hard links keeps one checkpoint
            link.unlink(missing_ok=True)
            os.link(path, link)
            os.replace(link, previous)
    save_tensors(path, tensors, {"state": state})
    remove_shards(folder)


class CheckpointWriter:
    """Writes checkpoints, on a GPU in a thread: the tensors are copied to the host, and training goes on.

    Args:
        in_background: otherwise `write` returns when the file is complete, as on a CPU, whose cores are all in use.
    """

    def __init__(self, in_background: bool) -> None:
        self.thread = ThreadPoolExecutor(1, "checkpoint") if in_background else None
        self.pending: Future[None] | None = None

    def write(self, folder: Path, tensors: dict[str, Tensor], progress: Progress, settings: dict[str, Any]) -> None:
        """`save_checkpoint` after the one before is written; where that failed, this one before returning.

        Raises:
            UserError: it cannot be written.
        """
        thread = self.thread
        try:
            self.wait()
        except UserError:
            thread = None
        if thread is None:
            save_checkpoint(folder, tensors, progress, settings)
            return
        copies = {name: value.detach().to("cpu", copy=True) for name, value in tensors.items()}
        self.pending = thread.submit(save_checkpoint, folder, copies, deepcopy(progress), dict(settings))

    def check(self) -> None:
        """Raise the error of a checkpoint that could not be written, without waiting for one that is being written.

        Raises:
            UserError: see above.
        """
        if self.pending is not None and self.pending.done():
            self.wait()

    def wait(self) -> None:
        """Return when everything is written.

        Raises:
            UserError: the last checkpoint cannot be written.
        """
        pending, self.pending = self.pending, None
        if pending is not None:
            pending.result()

    def close(self) -> None:
        """Wait and end the thread."""
        if self.thread is not None:
            self.thread.shutdown()


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest intact checkpoint; None where there is none.

    Raises:
        UserError: there are checkpoints, but none of them is intact.
    """
    problems: list[str] = []
    for path in (folder / CHECKPOINT, folder / PREVIOUS, folder / INDEX, folder / PREVIOUS_INDEX):
        if not path.exists():
            continue
        try:
            if path.suffix == ".json":
                return load_shards(path)._replace(warning=problems[0] if problems else None)
            tensors, metadata = load_tensors(path)
            state = json.loads(metadata["state"])
            progress = Progress(**state["progress"])
            if not isinstance(progress.step, int) or not isinstance(state["settings"], dict):
                raise TypeError("state")
            return Checkpoint(tensors, progress, state["settings"], problems[0] if problems else None)
        except UserError as problem:
            problems.append(str(problem))
        except (KeyError, TypeError, ValueError, RecursionError):
            problems.append(f"{path} is no checkpoint of this version of harken")
    if problems:
        raise UserError(f"{problems[0]}; train into a new folder, or start this run over with restart=True")
    return None


def has_checkpoint(folder: Path) -> bool:
    """Whether a run can be resumed from here."""
    return any((folder / name).is_file() for name in (CHECKPOINT, PREVIOUS, INDEX, PREVIOUS_INDEX))
