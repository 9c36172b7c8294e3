"""Signals with a label for every frame (video frames, sensors), from NumPy archives.

An `.npz` holds `frames` (N, C), the frames of all signals one after another, `labels` (N,), texts or numbers, and
`lengths` (rows,), how many frames each signal has; without `lengths` all frames are one signal.

>>> import io
>>> file = io.BytesIO()
>>> np.savez(file, frames=np.zeros((5, 2)), labels=["a", "a", "b", "b", "b"], lengths=[2, 3])
>>> _ = file.seek(0)
>>> [signal.tags for signal in parse_frames(np.load(file), "example.npz")]
[('a', 'a'), ('b', 'b', 'b')]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from harken.data.io.files import read_arrays
from harken.errors import UserError


class Framed(NamedTuple):
    """One signal."""

    frames: np.ndarray  # (T, C)
    tags: tuple[str, ...]  # (T,)


def read_frames(path: str | Path) -> list[Framed]:
    """All signals of an archive.

    Raises:
        UserError: it cannot be read, or its arrays do not fit each other.
    """
    return parse_frames(read_arrays(path), str(path))


def parse_frames(arrays: Mapping[str, Any], name: str) -> list[Framed]:
    """The arrays of an archive as signals; `name` is what errors call it.

    Raises:
        UserError: an array is missing, or they do not fit each other.
    """
    for required in ("frames", "labels"):
        if required not in arrays:
            there = ", ".join(sorted(arrays)) or "nothing"
            raise UserError(f"{name} has no array {required!r}; it has {there}, and frames and labels are wanted")
    frames, labels = np.asarray(arrays["frames"], dtype=np.float64), np.asarray(arrays["labels"])
    lengths = np.asarray(arrays["lengths"]) if "lengths" in arrays else np.array([len(labels)])
    if frames.ndim != 2 or labels.shape != frames.shape[:1]:
        raise UserError(
            f"{name} has frames of shape {frames.shape} and labels of shape {labels.shape}; make frames (N, C) and "
            "labels (N,)"
        )
    if lengths.sum() != len(labels) or (lengths < 0).any():
        raise UserError(
            f"{name} has {len(labels):,} frames, but its lengths sum up to {lengths.sum():,}; make them equal"
        )
    if not np.isfinite(frames).all():
        raise UserError(f"{name} has frames that are no numbers (NaN or infinite); fill them in or leave them out")
    ends = np.cumsum(lengths)
    rows = zip(np.split(frames, ends[:-1]), np.split(labels, ends[:-1]), strict=True)
    return [Framed(part, tuple(str(label) for label in marks)) for part, marks in rows if len(part)]
