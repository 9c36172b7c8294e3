"""What a transcriber heard: the spectrogram, and below it the CTC posterior of each symbol over time.

Frequencies go upwards, time to the right. A symbol of the text has a row, in the order in which they first occur, and
the blank of CTC the last one; all rows are shaded from 0 to 1.

>>> energies, posteriors = np.random.rand(8, 30), np.array([[0.1, 0.9], [0.9, 0.1]])
>>> picture = SpectrogramPicture(energies, posteriors, ["–", "a"], 0.01, 0.15, [("a", 0.0, 0.15, 0.9)], "a.wav: a")
>>> picture.names, round(picture.seconds, 2)
(['a', '–'], 0.3)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Raster
from harken.inspection.pictures.picture import Picture

QUIETEST = 5.0  # per cent of the cells that are drawn as nothing, so that noise does not grey the whole


class SpectrogramPicture(Picture):
    """Energies of the bands over posteriors of the symbols."""

    caption = "Above, the energy in every frequency band; below, the probability of every symbol at the same time."

    def __init__(
        self,
        energies: np.ndarray,
        posteriors: np.ndarray,
        names: Sequence[str],
        frame_seconds: float,
        step_seconds: float,
        said: Sequence[tuple[str, float, float, float]],
        title: str,
    ) -> None:
        """
        Args:
            energies: (bands, frames) logarithms, the lowest band first.
            posteriors: (V + 1, steps), the blank first.
            names: of the symbols, the blank's first.
            said: (symbol, start, end, confidence) of the text, in seconds.

        Raises:
            UserError: arrays that do not fit.
        """
        if energies.ndim != 2 or posteriors.ndim != 2 or 0 in energies.shape or len(names) != len(posteriors):
            raise UserError(
                f"energies {energies.shape} and posteriors {posteriors.shape} do not fit {len(names)} names; pass "
                "bands x frames and symbols x steps"
            )
        self.title, self.said = title, list(said)
        low, high = np.percentile(energies, [QUIETEST, 99.5])
        self.shades = np.clip((energies - low) / max(float(high - low), 1e-9), 0, 1)  # (bands, frames)
        self.seconds = max(energies.shape[1] * frame_seconds, posteriors.shape[1] * step_seconds)
        numbers = {name: number for number, name in enumerate(names)}
        written = dict.fromkeys(name for name, *_ in self.said)
        shown = [*(numbers[name] for name in written if name in numbers), 0]
        self.names = [visible(names[number]) for number in shown]
        self.posteriors = posteriors[shown]  # (rows, steps)
        self.steps = frame_seconds, step_seconds

    def figures(self) -> list[Figure]:
        limits = 0.0, self.seconds
        labels = [((start + end) / 2, visible(name)) for name, start, end, _ in self.said]
        sound = Raster("", "", "frequency band", _to(self.shades, self.seconds / self.steps[0]), limits, labels=labels)
        rows = _to(self.posteriors, self.seconds / self.steps[1])
        return [Figure(self.title, [sound, Raster("", "seconds", "symbol", rows, limits, self.names)], across=1)]

    def page_tail(self) -> str:
        """When each symbol was said."""
        from harken.inspection.figure.page import value_table

        rows = [[visible(name), f"{a:.2f} s", f"{b:.2f} s", f"{sure:.3f}"] for name, a, b, sure in self.said]
        return f"<h2>Symbols</h2>{value_table(['symbol', 'from', 'to', 'confidence'], rows)}" if rows else ""


def visible(name: str) -> str:
    """A space as a sign that can be seen."""
    return "␣" if name == " " else name


def _to(values: np.ndarray, columns: float) -> np.ndarray:
    """As many columns as the whole time has: nothing follows the last."""
    missing = max(0, round(columns) - values.shape[1])
    return np.pad(values, ((0, 0), (0, missing)))
