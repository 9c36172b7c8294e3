"""All points of a set of drawings in one flat array, and padded batches of them.

The network reads `before` and is to write `place` and `marks`: the next point, whether the pen is lifted after it, and
whether the drawing is over with it.

>>> rows = StrokeRows([Drawing.of([[(1, 0), (1, 5)]])])
>>> batch = rows.batch([0], deviation=5.0)
>>> batch.before.tolist(), batch.marks.tolist()
([[[0.0, 0.0, 0.0], [0.20000000298023224, 0.0, 0.0]]], [[[0.0, 0.0], [1.0, 1.0]]])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.strokes.drawing import Drawing
from harken.data.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class StrokeBatch:
    """Some drawings, padded to the longest, movements divided by the deviation of the training data."""

    before: Tensor  # (B, T, 3) dx, dy, lifted of the point before; nothing before the first
    place: Tensor  # (B, T, 2) dx, dy
    marks: Tensor  # (B, T, 2) lifted, over
    lengths: Tensor  # (B,)
    characters: Tensor | None = None  # (B, U) ids of the text, ended by EOS
    character_lengths: Tensor | None = None  # (B,)

    def to(self, device: torch.device | str) -> StrokeBatch:
        """The batch on another device."""
        texts, counts = self.characters, self.character_lengths
        return StrokeBatch(
            self.before.to(device),
            self.place.to(device),
            self.marks.to(device),
            self.lengths.to(device),
            None if texts is None else texts.to(device),
            None if counts is None else counts.to(device),
        )


class StrokeRows:
    """The drawings of a split; with a tokenizer, their texts too."""

    def __init__(self, drawings: Sequence[Drawing], tokenizer: Tokenizer | None = None) -> None:
        nothing = np.zeros((0, 3), np.float32)
        self.flat = np.concatenate([nothing, *(drawing.points for drawing in drawings)])  # (N, 3)
        self.lengths = np.array([len(drawing) for drawing in drawings], dtype=np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.texts = None
        if tokenizer is not None:
            self.texts = TokenRows.encode(tokenizer, [drawing.text or "" for drawing in drawings])

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, chosen: Sequence[int] | np.ndarray, deviation: float) -> StrokeBatch:
        """The tensors of some drawings."""
        rows = np.asarray(chosen, dtype=np.int64)
        lengths = self.lengths[rows]
        columns = np.arange(lengths.max(initial=0))  # (T,)
        inside = columns < lengths[:, None]  # (B, T)
        points = np.zeros((*inside.shape, 4), np.float32)  # dx, dy, lifted, over
        points[inside, :3] = self.flat[(self.offsets[rows][:, None] + columns)[inside]]
        points[..., :2] /= deviation
        points[np.arange(len(rows)), lengths - 1, 3] = 1.0
        before = np.zeros_like(points[..., :3])
        before[:, 1:] = points[:, :-1, :3]
        before[~inside] = 0.0
        texts = (None, None) if self.texts is None else self.texts.gather(rows)
        place, marks = np.ascontiguousarray(points[..., :2]), np.ascontiguousarray(points[..., 2:])
        tensors = torch.from_numpy(before), torch.from_numpy(place), torch.from_numpy(marks), torch.from_numpy(lengths)
        return StrokeBatch(*tensors, *texts)
