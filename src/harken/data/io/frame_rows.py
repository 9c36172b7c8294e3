"""Frames of real numbers of many examples in one flat array, and padded batches out of it: `TokenRows` for signals.

>>> rows = FrameRows([np.ones((2, 3)), np.ones((1, 3))])
>>> frames, lengths = rows.gather(np.array([1, 0]))
>>> frames.shape, lengths.tolist(), frames[0, 1].tolist()
(torch.Size([2, 2, 3]), [1, 2], [0.0, 0.0, 0.0])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from harken.data.io.ragged import Ragged
from harken.errors import UserError


class FrameRows(Ragged):
    """Rows of frames (T, C)."""

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
