"""Rows of a table on the even steps of a series, and gaps between them that are filled.

>>> from harken.data.series.steps import find_step
>>> dates = [datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(2024, 1, 4), datetime(2024, 1, 4)]
>>> grid = Grid.of(dates, find_step(sorted(set(dates))), "x.csv")
>>> grid.positions.tolist(), grid.spread(np.array([1.0, 2.0, 3.0, 5.0])).tolist()
([0, 1, 3, 3], [1.0, 2.0, nan, 4.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from harken.data.series.steps import Step
from harken.errors import UserError

OFF_GRID = 0.25  # steps that a date may lie beside its grid ...
MOST_OFF_GRID = 0.01  # ... and the share of the dates that may lie further
MOST_MISSING = 0.5  # share of the steps of a series; beyond it its rows have no step


@dataclass(frozen=True)
class Grid:
    """The steps of a series, and on which of them each row of a table lies."""

    positions: np.ndarray  # (R,)
    dates: list[datetime]  # (N,), empty where there are none

    @classmethod
    def of(cls, dates: Sequence[datetime] | int, step: Step | None, where: str) -> Grid:
        """The grid of rows with these dates, or of a number of rows that follow one another.

        Raises:
            UserError: the dates are not evenly spaced.
        """
        if isinstance(dates, int):
            return cls(np.arange(dates), [])
        ordered = sorted(set(dates))
        if step is None:
            return cls(np.zeros(len(dates), dtype=np.int64), ordered)
        exact = step.positions([ordered[0], *dates])[1:]
        positions = np.rint(exact).astype(np.int64)
        length, off = int(positions.max()) + 1, int((np.abs(exact - positions) > OFF_GRID).sum())
        missing = length - len(np.unique(positions))
        if off > MOST_OFF_GRID * len(dates) or missing > MOST_MISSING * length:
            problem = f"{off:,} of {len(dates):,} dates lie between these steps" if off else ""
            problem = problem or f"{missing:,} of {length:,} steps have no row"
            raise UserError(
                f"{where}: the dates are not evenly spaced (most are {step.name}, but {problem}); aggregate the "
                "rows to even steps, or take them as consecutive with --set data.date_column=none"
            )
        return cls(positions, step.grid(ordered, length))

    def __len__(self) -> int:
        return int(self.positions.max(initial=-1)) + 1

    @property
    def duplicates(self) -> int:
        """Rows whose step another row has already."""
        return len(self.positions) - len(np.unique(self.positions))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """(R,) values of rows -> (N,) of steps: the mean of their numbers, NaN where there is none."""
        known = ~np.isnan(values)
        counts = np.bincount(self.positions[known], minlength=len(self))
        sums = np.bincount(self.positions[known], weights=values[known], minlength=len(self))
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def fill_gaps(values: np.ndarray, rule: str, season: int = 1) -> np.ndarray:
    """Fill NaN by a rule of `Layout.fill`; the first value is a number, but for "zero".

    >>> gap = np.nan
    >>> fill_gaps(np.array([1.0, gap, gap, 4.0]), "linear").tolist()
    [1.0, 2.0, 3.0, 4.0]
    >>> fill_gaps(np.array([1.0, 2.0, gap, gap, gap]), "previous").tolist()
    [1.0, 2.0, 2.0, 2.0, 2.0]
    >>> fill_gaps(np.array([1.0, 2.0, gap, gap, gap]), "seasonal", 2).tolist()
    [1.0, 2.0, 1.0, 2.0, 1.0]
    """
    gaps, steps = np.isnan(values), np.arange(len(values))
    if not gaps.any():
        return values
    if rule == "zero":
        return np.where(gaps, 0.0, values)
    if rule == "linear":
        return np.interp(steps, steps[~gaps], values[~gaps])
    filled = values.copy()
    for step in np.flatnonzero(gaps):
        filled[step] = filled[step - season] if rule == "seasonal" and step >= season else filled[step - 1]
    return filled
