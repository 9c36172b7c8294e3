"""One drawing: the movements of a pen, and where it left the paper.

Row t of `points` is (dx, dy, lifted): the way from point t - 1 to point t, and 1 where the pen is lifted after point t.
The first movement is from the origin, of a written line the left end of its base line. y grows downwards, as on
screens.

>>> drawing = Drawing.of([[(0, 0), (3, 0)], [(3, 4)]])
>>> drawing.points.tolist()
[[0.0, 0.0, 0.0], [3.0, 0.0, 1.0], [0.0, 4.0, 1.0]]
>>> [stroke.tolist() for stroke in drawing.strokes()]
[[[0.0, 0.0], [3.0, 0.0]], [[3.0, 4.0]]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Drawing:
    """Movements of a pen, and the text they write where it is known."""

    points: np.ndarray  # (T, 3) float32: dx, dy, lifted
    text: str | None = None

    @classmethod
    def of(cls, strokes: Sequence[npt.ArrayLike], text: str | None = None) -> Drawing:
        """From strokes, each (points, 2) places on the paper."""
        arrays = [np.asarray(stroke, dtype=np.float64).reshape(-1, 2) for stroke in strokes]
        places = np.concatenate(arrays)  # (T, 2)
        lifted = np.zeros(len(places))
        lifted[np.cumsum([len(stroke) for stroke in arrays]) - 1] = 1.0
        moves = np.diff(places, axis=0, prepend=np.zeros((1, 2)))
        return cls(np.column_stack([moves, lifted]).astype(np.float32), text)

    def strokes(self) -> list[np.ndarray]:
        """The ink on the paper: each stroke as places (points, 2)."""
        return split_strokes(self.points)

    def __len__(self) -> int:
        return len(self.points)


def split_strokes(points: np.ndarray) -> list[np.ndarray]:
    """(T, 3) movements -> strokes, each (points, 2) places."""
    places = np.cumsum(points[:, :2].astype(np.float64), axis=0)
    ends = np.flatnonzero(points[:, 2] > 0.5) + 1
    return [stroke for stroke in np.split(places, ends) if len(stroke)]
