"""What a transcriber heard and what it made of it: the spectrogram, and below it the chance of each symbol over time.

Frequencies go upwards, time to the right, the same for both. A symbol that is written has a row, in the order in which
they are first said, and the blank of CTC a row at the end; all rows are drawn to one scale, 0 to 1.

>>> energies, chances = np.random.rand(8, 30), np.array([[0.1, 0.9], [0.9, 0.1]])
>>> picture = SpectrogramPicture(energies, chances, ["–", "a"], 0.01, 0.15, [("a", 0.0, 0.15, 0.9)], "a.wav: a")
>>> [row.name for row in picture.rows], round(picture.seconds, 2)
(['a', '–'], 0.3)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harken.errors import UserError
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

QUIETEST = 5.0  # per cent of the cells that are drawn as nothing, so that noise does not grey the whole


@dataclass(frozen=True)
class Said:
    """One symbol of the text."""

    name: str
    start: float  # seconds
    end: float
    confidence: float


@dataclass(frozen=True)
class Row:
    """The chances of one symbol."""

    name: str
    chances: np.ndarray  # (T,)


class SpectrogramPicture(Picture):
    """Energies of the bands over chances of the symbols."""

    def __init__(
        self,
        energies: np.ndarray,
        chances: np.ndarray,
        names: Sequence[str],
        frame_seconds: float,
        step_seconds: float,
        said: Sequence[tuple[str, float, float, float]],
        title: str,
    ) -> None:
        """
        Args:
            energies: (bands, frames) logarithms, the lowest band first.
            chances: (V + 1, steps), the blank first.
            names: of the symbols, the blank's first.
            said: (symbol, from, to, confidence) of the text.

        Raises:
            UserError: arrays that do not fit.
        """
        if energies.ndim != 2 or chances.ndim != 2 or 0 in energies.shape or len(names) != len(chances):
            raise UserError(
                f"energies {energies.shape} and chances {chances.shape} do not fit {len(names)} names; pass "
                "bands x frames and symbols x steps"
            )
        self.title = title
        low, high = np.percentile(energies, [QUIETEST, 99.5])
        self.shades = np.clip((energies - low) / max(float(high - low), 1e-9), 0, 1)  # (bands, frames)
        self.frame_seconds, self.step_seconds = frame_seconds, step_seconds
        self.seconds = max(energies.shape[1] * frame_seconds, chances.shape[1] * step_seconds)
        self.said = [Said(*one) for one in said]
        numbers = {name: number for number, name in enumerate(names)}
        written = list(dict.fromkeys(one.name for one in self.said))
        shown = [*(numbers[name] for name in written if name in numbers), 0]
        self.rows = [Row(visible(names[number]), chances[number]) for number in shown]

    def sampled(self, bands: int, columns: int) -> np.ndarray:
        """(at most `bands`, columns): the shades over the whole time, the means of what falls together."""
        high = min(bands, len(self.shades))
        merged = np.stack([part.mean(0) for part in np.array_split(self.shades, high)])  # (bands, frames)
        places = np.linspace(0, self.seconds / self.frame_seconds, columns + 1)
        return np.stack([_mean(merged, places[at], places[at + 1]) for at in range(columns)], axis=1)

    def chances_at(self, row: Row, columns: int) -> np.ndarray:
        """(columns,): the highest chance within each column."""
        places = np.linspace(0, self.seconds / self.step_seconds, columns + 1)
        found = np.zeros(columns)
        for at in range(columns):
            part = row.chances[int(places[at]) : max(int(np.ceil(places[at + 1])), int(places[at]) + 1)]
            found[at] = part.max(initial=0.0)
        return found

    def ticks(self) -> list[float]:
        """Round seconds for the axis, about six of them."""
        step = next((size for size in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60) if self.seconds / size <= 7), 600)
        return [round(number * step, 3) for number in range(int(self.seconds / step) + 1)]

    def lines(self, width: int, color: bool) -> list[Text]:
        """Twelve lines of sound, then a line for each symbol."""
        from harken.inspection.spectrogram_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        """Spectrogram above, curves below."""
        from harken.inspection.spectrogram_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        """Spectrogram above, curves below."""
        from harken.inspection.spectrogram_png import draw_png

        return draw_png(self)

    def to_html(self) -> str:
        """The drawing, and a table of what was said when."""
        from harken.inspection.spectrogram_html import draw_page

        return draw_page(self)


def visible(name: str) -> str:
    """A space as a sign that can be seen."""
    return "␣" if name == " " else name


def _mean(values: np.ndarray, start: float, end: float) -> np.ndarray:
    """(bands,): the mean of the columns from `start` to `end`, at least one; nothing behind the last."""
    first = int(start)
    if first >= values.shape[1]:
        return np.zeros(len(values))
    return values[:, first : max(int(np.ceil(end)), first + 1)].mean(1)
