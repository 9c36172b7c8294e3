"""What a model went by in a signal: each channel's curve over time, the weight of every frame as shade behind it.

>>> picture = SignalWeights(np.array([[0.0], [1.0], [2.0]]), [0.0, 0.4, 1.0], "up 0.99", "Attention", ["x"])
>>> print(picture.to_terminal(width=40, color=False))
Attention: up 0.99; the largest is 1
x        ▁▅█
weights  ·▒█
The deeper the shade behind the curves,
the more the frame counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Strips
from harken.inspection.pictures.checks import checked_weights
from harken.inspection.pictures.picture import Picture

MOST = 12  # channels that are drawn


class SignalWeights(Picture):
    """Frames (T, C) and a weight from 0 to 1 for each."""

    caption = "The deeper the shade behind the curves, the more the frame counts."

    def __init__(
        self, frames: npt.ArrayLike, weights: npt.ArrayLike, label: str, title: str, names: Sequence[str] | None = None
    ) -> None:
        """
        Raises:
            UserError: weights that do not fit the frames, or are no weights.
        """
        self.frames = np.asarray(frames, dtype=np.float64)
        if self.frames.ndim != 2 or not self.frames.size:
            raise UserError(f"the signal has shape {self.frames.shape}; give (time, channels) with at least one frame")
        self.weights = checked_weights(weights, (len(self.frames),), "frames")
        self.title = f"{title}: {label}; the largest is 1"
        channels = self.frames.shape[1]
        self.names = list(names or [f"channel {number + 1}" for number in range(channels)])[:MOST]
        self.frames = self.frames[:, :MOST]

    def figures(self) -> list[Figure]:
        return [Figure(self.title, [Strips("", "frame", self.names, self.frames, self.weights)])]
