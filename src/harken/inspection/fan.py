"""A series and what may come: history, a fan of quantiles, the truth where it is known; shade where it counts.

>>> import numpy as np
>>> values, truth = np.array([[2.0, 3.0, 5.0]]), np.array([4.0])
>>> picture = FanPicture("sales", np.array([1.0, 2.0]), [0.1, 0.5, 0.9], values, truth=truth)
>>> picture.range, picture.ticks()
((1.0, 5.0), [1.0, 2.0, 3.0, 4.0, 5.0])
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text


class FanPicture(Picture):
    """One series."""

    def __init__(
        self,
        title: str,
        past: np.ndarray,
        levels: Sequence[float],
        values: np.ndarray,
        labels: Sequence[str] = (),
        truth: np.ndarray | None = None,
        shade: np.ndarray | None = None,
    ) -> None:
        """
        Args:
            past: (S,) what was known.
            levels: Q quantiles in rising order, 0.5 among them.
            values: (T, Q) forecasts.
            labels: (S + T,) dates, or nothing.
            truth: what came, T values or fewer.
            shade: (S,) how much each step of the past counts.
        """
        self.title, self.past, self.levels, self.values = title, past, list(levels), values
        self.labels, self.truth, self.shade = list(labels), truth, shade

    @property
    def steps(self) -> int:
        """S + T."""
        return len(self.past) + len(self.values)

    @property
    def median(self) -> np.ndarray:
        """(T,)."""
        return self.values[:, self.levels.index(0.5)]

    @property
    def bands(self) -> list[tuple[str, np.ndarray, np.ndarray]]:
        """From the widest to the narrowest: what it is called, its lower and its upper edge (T,)."""
        count = self.levels.index(0.5)
        pairs = [(low, len(self.levels) - 1 - low) for low in range(min(count, len(self.levels) - 1 - count))]
        return [
            (f"{self.levels[low]:g} to {self.levels[high]:g}", self.values[:, low], self.values[:, high])
            for low, high in pairs
        ]

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value that is drawn."""
        parts = [self.past, self.values.ravel(), *([self.truth] if self.truth is not None else [])]
        drawn = np.concatenate(parts)
        drawn = drawn[np.isfinite(drawn)]
        low, high = (float(drawn.min()), float(drawn.max())) if len(drawn) else (0.0, 1.0)
        return (low, high) if high > low else (low - 1, high + 1)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within the range."""
        low, high = self.range
        rough = (high - low) / (most - 1)
        size = 10.0 ** math.floor(math.log10(rough))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= rough * 0.999)
        return [round(step * place, 10) for place in range(math.ceil(low / step), math.floor(high / step) + 1)]

    def label(self, step: int) -> str:
        """What step `step`, counted from 0, is called."""
        return self.labels[step] if len(self.labels) == self.steps else str(step - len(self.past) + 1)

    def label_places(self, most: int = 5) -> list[int]:
        """Steps to write at the axis: the first of the forecast, and some at equal distances from it."""
        gap = max(1, math.ceil(self.steps / most))
        first = len(self.past)
        return sorted({*range(first, -1, -gap), *range(first, self.steps, gap)})

    def lines(self, width: int, color: bool) -> list[Text]:
        """Past as dots, the median as a thick line, the fan as shade."""
        from harken.inspection.fan_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        """A drawing."""
        from harken.inspection.fan_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        """The same, by matplotlib."""
        from harken.inspection.fan_png import draw_png

        return draw_png(self)

    def to_html(self) -> str:
        """The drawing, and the numbers in a table."""
        from harken.inspection.fan_html import draw_page

        return draw_page(self)
