"""What a model went by in a signal: each channel's curve over time, the weight of every frame as shade behind it.

>>> import numpy as np
>>> picture = SignalWeights(np.array([[0.0], [1.0], [2.0]]), [0.0, 0.4, 1.0], "up 0.99", "Attention", ["x"])
>>> print(picture.to_terminal(width=40, color=False))
Attention: up 0.99; the largest is 1
x        ▁▅█
weights  ·▒█
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.checks import checked_weights
from harken.inspection.picture import Picture
from harken.inspection.words import cut

if TYPE_CHECKING:
    from rich.text import Text

BARS = "▁▂▃▄▅▆▇█"
SHADES = "·░▒▓█"
MOST = 12  # channels that are drawn


class SignalWeights(Picture):
    """Frames (T, C) and a weight from 0 to 1 for each."""

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

    def scaled(self) -> np.ndarray:
        """Every channel from 0 to 1, (T, C); one that never moves lies in the middle."""
        low, high = self.frames.min(0), self.frames.max(0)
        moves = high > low
        return np.where(moves, (self.frames - low) / np.where(moves, high - low, 1.0), 0.5)

    def lines(self, width: int, color: bool) -> list[Text]:
        """A row of bars for each channel and one of shades for the weights."""
        from rich.text import Text

        label = min(max(map(len, [*self.names, "weights"])), max(6, width // 4))
        room = max(1, width - label - 2)
        steps = np.array_split(np.arange(len(self.frames)), min(room, len(self.frames)))
        curves = self.scaled()
        lines = [Text(cut(self.title, width), style="bold" if color else "")]
        for name, curve in zip(self.names, curves.T, strict=True):
            bars = "".join(BARS[round(float(curve[step].mean()) * (len(BARS) - 1))] for step in steps)
            lines.append(Text(f"{cut(name, label):<{label}}  {bars}"))
        shades = "".join(SHADES[round(float(self.weights[step].max()) * (len(SHADES) - 1))] for step in steps)
        return [*lines, Text(f"{'weights':<{label}}  {shades}")]

    def to_svg(self) -> str:
        """A drawing for papers and web pages; follows the reader's light or dark setting."""
        from harken.inspection.signal_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        """A picture of dots, for slides."""
        from harken.inspection.signal_png import draw_png

        return draw_png(self)
