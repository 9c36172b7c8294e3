"""Checkpoints of divided tensors: one safetensors file a rank and an index in JSON, merged when they are loaded.

    checkpoint.index.json                          step, files, names of divided tensors, progress, settings
    checkpoint-000500-00001-of-00004.safetensors   the second of four parts; the first also has what is not divided

A rank has the rows [i * n, (i + 1) * n) of a tensor, with n = ceil(rows / ranks). The index is written when all files
are there, so a kill at any moment leaves the old checkpoint or the new one; the one before stays as
`checkpoint.previous.index.json`. A checkpoint may be loaded by any number of ranks, divided or not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.errors import UserError
from harken.files import atomic_write
from harken.training.checkpoints.progress import CHECKPOINT, PREVIOUS, Checkpoint, Progress
from harken.training.checkpoints.tensors import load_tensors, save_tensors

INDEX, PREVIOUS_INDEX = "checkpoint.index.json", "checkpoint.previous.index.json"
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
    kept = {name for path in (folder / INDEX, folder / PREVIOUS_INDEX) for name in _files_of(path)}
    for path in folder.glob(SHARDS):
        if path.name not in kept:
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
