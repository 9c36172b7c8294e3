"""All points of a set of drawings in one flat array, and padded batches of them.

The network reads `before` and is to write `movement` and `marks`: the next point, whether the pen is lifted after it,
and whether the drawing is over with it.

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

from harken.data.io.ragged import Ragged
from harken.data.io.token_rows import TokenRows
from harken.data.strokes.drawing import Drawing
from harken.data.tokenizers.base import Tokenizer


@dataclass(frozen=True)
class StrokeBatch:
    """Some drawings, padded to the longest, movements divided by the deviation of the training data."""

    before: Tensor  # (B, T, 3) dx, dy, lifted of the point before; nothing before the first
    movement: Tensor  # (B, T, 2) dx, dy
    marks: Tensor  # (B, T, 2) lifted, over
    lengths: Tensor  # (B,)
    characters: Tensor | None = None  # (B, U) ids of the text, ended by EOS
    character_lengths: Tensor | None = None  # (B,)

    def to(self, device: torch.device | str) -> StrokeBatch:
        """The batch on another device."""
        given = {name: tensor for name, tensor in vars(self).items() if tensor is not None}
        return StrokeBatch(**{name: tensor.to(device) for name, tensor in given.items()})


class StrokeRows(Ragged):
    """The drawings of a split; with a tokenizer, their texts too."""

    def __init__(self, drawings: Sequence[Drawing], tokenizer: Tokenizer | None = None) -> None:
        points = Ragged.of([drawing.points for drawing in drawings], (3,), np.float32)
        super().__init__(points.flat, points.offsets)
        self.texts = None
        if tokenizer is not None:
            self.texts = TokenRows.encode(tokenizer, [drawing.text or "" for drawing in drawings])

    def batch(self, chosen: Sequence[int] | np.ndarray, deviation: float) -> StrokeBatch:
        """The tensors of some drawings."""
        points, lengths = self.padded(chosen, 0.0)  # (B, T, 3): dx, dy, lifted
        points[..., :2] /= deviation
        steps = np.arange(points.shape[1])
        before = np.zeros_like(points)
        before[:, 1:] = points[:, :-1]
        before[steps >= lengths[:, None]] = 0.0
        over = (steps == lengths[:, None] - 1).astype(np.float32)
        texts = (None, None) if self.texts is None else self.texts.gather(chosen)
        movement, marks = np.ascontiguousarray(points[..., :2]), np.stack([points[..., 2], over], -1)
        return StrokeBatch(*map(torch.from_numpy, (before, movement, marks, lengths)), *texts)
