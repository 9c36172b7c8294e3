"""A series and its forecast: the last seasons of history, the quantiles as bands, the actual values where known.

>>> values, actual = np.array([[2.0, 3.0, 5.0]]), np.array([4.0])
>>> picture = FanPicture("sales", np.array([1.0, 2.0]), [0.1, 0.5, 0.9], values, truth=actual)
>>> picture.note
'The actual values lie within the 0.1 to 0.9 quantiles at 1 of 1 steps.'
>>> season_of([f"{year}-{month:02}" for year in (2023, 2024) for month in range(1, 13)])
12
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.inspection.figure.spec import Band, Figure, Lines, Mark, Series
from harken.inspection.figure.values import round_ticks
from harken.inspection.pictures.picture import Picture

SEASONS = 3  # of history that are drawn
LEAST = 24  # steps of history where no season is known
TICKS = 8
HISTORY, FORECAST, ACTUAL = 7, 0, 1  # colours
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
STEPS_A_SEASON = (
    (200.0, 1),
    (60.0, 4),
    (20.0, 12),
    (5.0, 52),
    (0.9, 7),
    (0.03, 24),
    (0.015, 48),
)  # days a step, at least


class FanPicture(Picture):
    """One series."""

    caption = "The line is the median of the forecast; a band holds the actual value as often as its quantiles say."

    def __init__(
        self,
        title: str,
        past: np.ndarray,
        levels: Sequence[float],
        values: np.ndarray,
        labels: Sequence[str] = (),
        truth: np.ndarray | None = None,
        shade: np.ndarray | None = None,
        season: int | None = None,
    ) -> None:
        """
        Args:
            past: (S,) what was known.
            levels: Q quantiles in rising order, 0.5 among them.
            values: (T, Q) forecasts.
            labels: (S + T,) dates, or nothing.
            truth: what came, T values or fewer.
            shade: (S,) how much each step of the past counts.
            season: steps of a season; by default seen from the dates.
        """
        self.title, self.past, self.levels, self.values = title, past, list(levels), values
        self.labels = list(labels) if len(labels) == len(past) + len(values) else []
        self.truth, self.shade = truth, shade
        self.season = season or season_of(self.labels)

    @property
    def shown(self) -> int:
        """Steps of history that are drawn: three seasons, and no fewer than are forecast."""
        steps = SEASONS * self.season if self.season > 1 else max(LEAST, 2 * len(self.values))
        return min(len(self.past), max(steps, len(self.values)))

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
    def note(self) -> str:
        """How often the actual values lie within the widest band."""
        if self.truth is None or not len(self.truth) or not self.bands:
            return ""
        name, low, high = self.bands[0]
        inside = (low[: len(self.truth)] <= self.truth) & (self.truth <= high[: len(self.truth)])
        return f"The actual values lie within the {name} quantiles at {int(inside.sum())} of {len(inside)} steps."

    def figures(self) -> list[Figure]:
        shown, steps = self.shown, len(self.values)
        ahead = [float(step) for step in range(1, steps + 1)]  # step 0 is the last of the history
        before = [float(step) for step in range(1 - shown, 1)]
        series = [
            Series("history", before, self.past[len(self.past) - shown :].tolist(), colour=HISTORY),
            Series("forecast (median)", ahead, self.median.tolist(), colour=FORECAST),
        ]
        if self.truth is not None:
            series.append(Series("actual", ahead[: len(self.truth)], self.truth.tolist(), colour=ACTUAL, dashed=True))
        bands = [Band(f"quantiles {name}", ahead, a.tolist(), b.tolist()) for name, a, b in self.bands]
        labels = self.labels[len(self.past) - shown :]
        panel = Lines(
            "",
            "" if labels else "steps after the last known",
            "",
            series,
            bands=bands,
            dots=shown + steps <= 60,
            marks=[Mark(0.5, "forecast", axis="x")],
            shade=None if self.shade is None else self.shade[len(self.past) - shown :].tolist(),
            x_ticks=date_ticks(labels, 1 - shown) if labels else step_ticks(1 - shown, steps),
            names=labels,
        )
        return [Figure(self.title, [panel], self.note)]


def season_of(labels: Sequence[str]) -> int:
    """Steps of a season by the distance between dates: 12 for months, 7 for days, 24 for hours; 0 if unknown."""
    try:
        days = np.array([label.replace(" ", "T") for label in labels], dtype="datetime64[s]").astype(float) / 86_400
    except ValueError:
        return 0
    if len(days) < 2:
        return 0
    gap = float(np.median(np.diff(days)))
    return next((steps for least, steps in STEPS_A_SEASON if gap >= least), 0)


def date_ticks(labels: Sequence[str], first: int) -> list[tuple[float, str]]:
    """Where a year, month, day or hour begins, by the finest of them that gives few enough ticks.

    >>> date_ticks([f"2024-{month:02}-01" for month in range(11, 13)] + ["2025-01-01", "2025-02-01"], 0)
    [(0.0, 'Nov 2024'), (1.0, 'Dec 2024'), (2.0, 'Jan 2025'), (3.0, 'Feb 2025')]
    """
    best: list[tuple[float, str]] = []
    for end in (4, 7, 10, 13, 16):  # year, month, day, hour, minute
        starts = [at for at in range(len(labels)) if at == 0 or labels[at][:end] != labels[at - 1][:end]]
        begun = starts[1:] if end == 4 and len(starts) > 2 else starts  # a year that was cut has no beginning
        if len(best) < len(begun) <= TICKS:
            best = [(float(first + at), _tick_name(labels[at][:end])) for at in begun]
    if best:
        return best
    gap = -(-len(labels) // TICKS)
    return [(float(first + at), labels[at]) for at in range(0, len(labels), gap)]


def _tick_name(label: str) -> str:
    month = label[5:7]
    if len(label) in (7, 10) and month.isdigit() and 1 <= int(month) <= 12:
        day = f"{int(label[8:10])} " if len(label) == 10 and label[8:10].isdigit() else ""
        return f"{day}{MONTHS[int(month) - 1]} {label[:4]}"
    return label


def step_ticks(first: int, last: int) -> list[tuple[float, str]]:
    """Whole steps at round numbers."""
    return [(value, f"{value:g}") for value in round_ticks(first, last, TICKS) if value == int(value)]
