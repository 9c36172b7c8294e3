"""`series.json` in a model folder: where the series ended, so that a model can be asked what comes without a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.series.dates import read_dates, written
from harken.data.series.series import Series
from harken.errors import UserError
from harken.tasks.forecast.windows import Cut

ENDS = "series.json"


@dataclass(frozen=True)
class Ends:
    """What the network was made for, and the last rows of every series it was trained on."""

    log: bool
    channels: int
    known: int
    series: list[Series]  # from some windows before the test part on
    held_out: list[int]  # the row of each at which its test part begins

    @classmethod
    def of(cls, series: Sequence[Series], cuts: Sequence[Cut], window: int, log: bool) -> Ends:
        """Three windows before the test part and all of it."""
        starts = [max(0, one.valid - 3 * window) for one in cuts]
        kept = [one.rows(start, len(one)) for one, start in zip(series, starts, strict=True)]
        channels = 1 + series[0].past.shape[1] + series[0].known.shape[1]
        places = [one.valid - start for one, start in zip(cuts, starts, strict=True)]
        return cls(log, channels, series[0].known.shape[1], kept, places)

    def to_json(self) -> str:
        """For `series.json`."""
        rows = [
            {
                "name": one.name,
                "held_out": place,
                "dates": [written(date) for date in one.dates],
                "target": one.target.tolist(),
                "past": one.past.tolist(),
                "known": one.known.tolist(),
            }
            for one, place in zip(self.series, self.held_out, strict=True)
        ]
        return json.dumps({"log": self.log, "channels": self.channels, "known": self.known, "series": rows})

    @classmethod
    def read(cls, folder: Path) -> Ends:
        """Raises: UserError where the file is not there or damaged."""
        path = folder / ENDS
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            series = [_series(row, stored["channels"], stored["known"]) for row in stored["series"]]
            places = [int(row["held_out"]) for row in stored["series"]]
            return cls(bool(stored["log"]), int(stored["channels"]), int(stored["known"]), series, places)
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{path} cannot be read ({problem}); train the model again or copy it anew") from None


def _series(row: dict[str, Any], channels: int, known: int) -> Series:
    count = len(row["target"])
    return Series(
        row["name"],
        np.array(row["target"], dtype=np.float64),
        np.array(row["past"], dtype=np.float64).reshape(count, channels - 1 - known),
        np.array(row["known"], dtype=np.float64).reshape(count, known),
        read_dates(row["dates"], ENDS),
    )
