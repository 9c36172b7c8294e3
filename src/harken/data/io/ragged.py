"""Rows of different lengths in one flat array, and padded batches out of it.

Rows lie one after another; `offsets[i]` is where row i starts. A million Python lists would take ten times the memory,
and a batch would be a loop; here it is one indexing operation.

>>> rows = Ragged.of([np.array([5, 6, 7]), np.array([8])])
>>> [part.tolist() for part in rows.padded([1, 0], fill=0)]
[[[8, 0, 0], [5, 6, 7]], [1, 3]]
>>> frames, lengths = FrameRows([np.ones((2, 3)), np.ones((1, 3))]).gather(np.array([1, 0]))
>>> frames.shape, lengths.tolist(), frames[0, 1].tolist()
(torch.Size([2, 2, 3]), [1, 2], [0.0, 0.0, 0.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from harken.data.batching import BLOCK
from harken.errors import UserError
from harken.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor


class Ragged:
    """`flat` (N, ...) holds all rows one after another, row i is `flat[offsets[i]:offsets[i + 1]]`."""

    def __init__(self, flat: np.ndarray, offsets: np.ndarray) -> None:
        self.flat = flat
        self.offsets = offsets.astype(np.int64, copy=False)

    @classmethod
    def of(cls, rows: Sequence[np.ndarray], shape: tuple[int, ...] = (), dtype: Any = None) -> Self:
        """Arrays (T, ...) one after another; `shape` is that of one step, which counts where there is no row."""
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        dtype = dtype or (rows[0].dtype if len(rows) else np.int64)
        return cls(np.concatenate([np.zeros((0, *shape), dtype), *rows]).astype(dtype, copy=False), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        if not -len(self) <= index < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        index %= len(self)
        return self.flat[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """The length of every row, int32: with millions of rows, in memory for the whole of a run."""
        lengths = np.empty(len(self), dtype=np.int32)
        for start in range(0, len(self), BLOCK):
            lengths[start : start + BLOCK] = np.diff(self.offsets[start : start + BLOCK + 1])
        return lengths

    def padded(
        self, indices: Sequence[int] | np.ndarray, fill: float, dtype: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """(rows (B, T, ...) padded with `fill` to the longest, lengths (B,) int64) of the chosen rows."""
        chosen = np.asarray(indices, dtype=np.int64)
        starts = self.offsets[chosen]
        lengths = self.offsets[chosen + 1] - starts
        columns = np.arange(lengths.max(initial=0))  # (T,)
        inside = columns < lengths[:, None]  # (B, T)
        rows = np.full((*inside.shape, *self.flat.shape[1:]), fill, dtype=dtype or self.flat.dtype)
        rows[inside] = self.flat[(starts[:, None] + columns)[inside]]
        return rows, lengths


class FrameRows(Ragged):
    """Rows of frames (T, C) of real numbers: `TokenRows` for signals."""

    def __init__(self, examples: Sequence[np.ndarray], channels: int | None = None) -> None:
        """
        Raises:
            UserError: an example without frames, with a number of channels of its own, or with no finite number.
        """
        wide = channels if channels is not None else (examples[0].shape[1] if len(examples) else 1)
        for number, example in enumerate(examples, start=1):
            if example.ndim != 2 or example.shape[1] != wide or not len(example):
                raise UserError(
                    f"signal {number} has shape {example.shape}; give (time, channels) with {wide} channels and at "
                    "least one frame, as in training"
                )
            if not np.isfinite(example).all():
                raise UserError(f"signal {number} has a value that is missing or infinite; fill it, or leave it out")
        rows = Ragged.of(examples, (wide,), np.float32)
        super().__init__(rows.flat, rows.offsets)

    def gather(self, indices: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor]:
        """(frames (B, T, C) padded with zeros, lengths (B,)) of the chosen rows."""
        frames, lengths = self.padded(indices, 0.0)
        return torch.from_numpy(frames), torch.from_numpy(lengths)
