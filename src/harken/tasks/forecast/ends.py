"""`series.json` in a model folder: where the series ended, so that a model can be asked what comes without a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from pydantic import BaseModel, Field, FiniteFloat

from harken.data.series.dates import read_date, written
from harken.data.series.series import Series
from harken.errors import UserError
from harken.files import atomic_write
from harken.tasks.artifacts import ObjectArtifact, damaged
from harken.tasks.forecast.windows import Cut

FILE = "series.json"


@dataclass(frozen=True)
class Ends:
    """The sizes and the transform of a network, and the last rows of every series it was trained on."""

    log: bool
    channels: int
    known: int
    series: list[Series]  # from some windows before the test part on
    held_out: list[int]  # the row of each at which its test part begins

    @classmethod
    def of(cls, series: Sequence[Series], cuts: Sequence[Cut], window: int, log: bool) -> Ends:
        """Three windows before the test part and all of it."""
        starts = [max(0, cut.valid - 3 * window) for cut in cuts]
        ends = [part.rows(start, len(part)) for part, start in zip(series, starts, strict=True)]
        channels = 1 + series[0].past.shape[1] + series[0].known.shape[1]
        held_out = [cut.valid - start for cut, start in zip(cuts, starts, strict=True)]
        return cls(log, channels, series[0].known.shape[1], ends, held_out)

    def save(self, folder: Path) -> None:
        """Write `series.json`."""
        rows = [
            {
                "name": series.name,
                "held_out": held_out,
                "dates": [written(date) for date in series.dates],
                "target": series.target.tolist(),
                "past": series.past.tolist(),
                "known": series.known.tolist(),
            }
            for series, held_out in zip(self.series, self.held_out, strict=True)
        ]
        stored = {"log": self.log, "channels": self.channels, "known": self.known, "series": rows}
        atomic_write(folder / FILE, json.dumps(stored))

    @classmethod
    def load(cls, folder: Path) -> Ends:
        """Read it back.

        Raises:
            UserError: it is missing or damaged.
        """
        try:
            stored = _Stored.model_validate_json((folder / FILE).read_bytes(), strict=True)
            series = [_series(row, stored.channels - 1 - stored.known, stored.known) for row in stored.series]
        except (OSError, ValueError, UserError):
            raise damaged(folder / FILE) from None
        return cls(stored.log, stored.channels, stored.known, series, [row.held_out for row in stored.series])


class _Row(BaseModel):
    """One series in the file."""

    name: str
    held_out: int = Field(ge=0)
    dates: list[str]
    target: list[FiniteFloat] = Field(min_length=1)
    past: list[list[FiniteFloat]]
    known: list[list[FiniteFloat]]


class _Stored(BaseModel):
    """The content of the file."""

    log: bool
    channels: int = Field(ge=1)
    known: int = Field(ge=0)
    series: list[_Row] = Field(min_length=1)


def _series(row: _Row, past: int, known: int) -> Series:
    """The series of a stored row; a ValueError where parts of it do not fit each other."""
    count = len(row.target)
    dates = [date for date in map(read_date, row.dates) if date is not None]
    is_rising = all(earlier < later for earlier, later in pairwise(dates))
    if row.held_out > count or len(row.dates) not in (0, count) or len(dates) != len(row.dates) or not is_rising:
        raise ValueError("dates or the start of the test part do not fit the rows")
    return Series(
        row.name,
        np.array(row.target, dtype=np.float64),
        np.array(row.past, dtype=np.float64).reshape(count, past),
        np.array(row.known, dtype=np.float64).reshape(count, known),
        dates,
    )


ENDS = ObjectArtifact(Ends, FILE)
