"""Checkpoints: all that a run needs to go on after a kill.

A checkpoint holds tensors (weights and buffers, their average, the optimizer's state, carried states) and a JSON state
(step, position in the data, best score, time) in one safetensors file: reading it can run no code, and a kill at any
moment leaves either the old checkpoint or the new one. The last two are kept, so that a damaged file costs some steps,
not the run. Random state needs no entry: every step seeds it from (seed, step, worker).

Checkpoints of divided tensors (FSDP) are one safetensors file a rank and an index in JSON, merged when they are loaded:

    checkpoint.index.json                          step, files, names of divided tensors, progress, settings
    checkpoint-000500-00001-of-00004.safetensors   the second of four parts; the first also has what is not divided

A rank has the rows [i * n, (i + 1) * n) of a tensor, with n = ceil(rows / ranks). The index is written when all files
are there; the one before stays as `checkpoint.previous.index.json`. Any number of ranks may load a checkpoint, divided
or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harken.errors import UserError
from harken.files import atomic_write
from harken.training.folder import CHECKPOINT, CHECKPOINTS, INDEX, PREVIOUS, PREVIOUS_INDEX
from harken.training.weights import load_tensors, save_tensors


@dataclass
class Progress:
    """The state of a run between two updates."""

    step: int = 0  # updates made
    epoch: int = 0
    position: int = 0  # batches of this epoch already used
    tokens: int = 0  # loss terms seen: target tokens, labels, frames ...
    seconds: float = 0.0  # spent in the loop, validation included
    best: float | None = None
    best_step: int = 0
    best_loss: float | None = None  # of the validation at `best_step`
    stale: int = 0  # validations since the best
    waited: int = 0  # validations the plateau schedule has waited
    reduced: float = 1.0  # factor of the plateau schedule
    window_loss: float = 0.0  # of the steps since the last line of metrics.jsonl
    window_tokens: int = 0
    window_seconds: float = 0.0
    validations: int = 0
    validated_step: int = 0  # of the last validation
    validation_seconds: float = 0.0
    loss_mean: float = 0.0  # running mean of the loss a token, its mean deviation and how many updates they are of
    loss_deviation: float = 0.0
    loss_counted: int = 0
    jump_loss: float = 0.0  # the last loss far above the running mean, and the updates since that are not back there
    jump_updates: int = 0
    dead: dict[str, int] = field(default_factory=dict)  # parameter -> validations in a row without a gradient
    finished: bool = False
    spent_minutes: float = 0.0  # the budget in minutes that a finished run has spent
    stopped_by: str = ""  # the limit that ended a finished run: "max_steps", "max_epochs", "max_minutes", "patience"

    def branch(self) -> Progress:
        """Where another run starts that goes on from here: the place in the data and the clock, no scores."""
        return Progress(self.step, self.epoch, self.position, self.tokens, self.seconds)


class Checkpoint(NamedTuple):
    """A checkpoint that `load_checkpoint` read."""

    tensors: dict[str, Tensor]
    progress: Progress
    settings: dict[str, Any]
    warning: str | None  # why this is not the last checkpoint written


SHARDS = "checkpoint-*-of-*.safetensors"


def shard_of(whole: Tensor, rank: int, world_size: int) -> Tensor:
    """The rows of a rank.

    >>> [shard_of(torch.arange(5), rank, 4).tolist() for rank in range(4)]
    [[0, 1], [2, 3], [4], []]
    """
    rows = -(-whole.shape[0] // world_size)
    return whole[rank * rows : (rank + 1) * rows]


def save_shard(
    folder: Path,
    tensors: Mapping[str, Tensor],
    divided: list[str],
    progress: Progress,
    settings: dict[str, Any],
    rank: int,
    world_size: int,
    barrier: Callable[[], None],
) -> None:
    """Write this rank's file; rank 0 also the index, and deletes the checkpoint before the last.

    Args:
        tensors: this rank's parts of the `divided` ones, and on rank 0 the others.
        barrier: waits for all ranks.
    """
    names = [f"checkpoint-{progress.step:06}-{part:05}-of-{world_size:05}.safetensors" for part in range(world_size)]
    save_tensors(folder / names[rank], tensors, {"step": str(progress.step)})
    barrier()
    if rank != 0:
        return
    if _files_of(folder / INDEX) not in ([], names):  # a step that is saved again, at the end of a run, stays the last
        os.replace(folder / INDEX, folder / PREVIOUS_INDEX)
    index = {"step": progress.step, "files": names, "divided": divided}
    atomic_write(folder / INDEX, json.dumps({**index, "progress": asdict(progress), "settings": settings}))
    current = {name for path in (folder / INDEX, folder / PREVIOUS_INDEX) for name in _files_of(path)}
    for path in folder.glob(SHARDS):
        if path.name not in current:
            path.unlink()
    for name in (CHECKPOINT, PREVIOUS):
        (folder / name).unlink(missing_ok=True)


def load_shards(path: Path) -> Checkpoint:
    """The checkpoint of an index, its tensors merged.

    Raises:
        UserError: a file is missing, damaged or of another step.
        KeyError, TypeError, ValueError: the index is none of harken's.
    """
    index = json.loads(path.read_text(encoding="utf-8"))
    parts = []
    for name in index["files"]:
        tensors, metadata = load_tensors(path.parent / Path(name).name)
        if metadata.get("step") != str(index["step"]):
            raise UserError(f"{path.parent / name} is of another step than {path.name}")
        parts.append(tensors)
    merged = dict(parts[0])
    for name in index["divided"]:
        merged[name] = torch.cat([part[name] for part in parts])
    return Checkpoint(merged, Progress(**index["progress"]), index["settings"], None)


def remove_shards(folder: Path) -> None:
    """Delete divided checkpoints."""
    for path in (folder / INDEX, folder / PREVIOUS_INDEX, *folder.glob(SHARDS)):
        path.unlink(missing_ok=True)


def _files_of(path: Path) -> list[str]:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return [str(name) for name in json.loads(path.read_text(encoding="utf-8"))["files"]]
    return []


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
            link.unlink(missing_ok=True)  # still there where a killed run left both names to one file
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
    for path in (folder / name for name in CHECKPOINTS):
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


def saved_settings(folder: Path) -> dict[str, Any]:
    """The settings in the newest readable checkpoint, without its tensors; {} where there is none."""
    from safetensors import SafetensorError, safe_open

    for path in (folder / name for name in CHECKPOINTS):
        with suppress(SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError):
            if path.suffix == ".json":
                return dict(json.loads(path.read_text(encoding="utf-8"))["settings"])
            with safe_open(path, "pt") as stored:
                return dict(json.loads(stored.metadata()["state"])["settings"])
    return {}


def has_checkpoint(folder: Path) -> bool:
    """Whether a run can be resumed from here."""
    return any((folder / name).is_file() for name in CHECKPOINTS)
