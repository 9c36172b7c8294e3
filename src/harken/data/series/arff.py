"""Signals of the UCR and UEA archives in ARFF: a row an example, its label last.

    univariate      1.2,0.7,...,left
    multivariate    '1.2,0.7\\n4.1,4.0',left      the channels of one example in quotes, divided by \\n

>>> frames, label = parse_arff("'1,2,3\\\\n4,5,6',left")
>>> frames.tolist(), label
([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], 'left')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from harken.data.io.files import read_lines
from harken.data.io.table import CELL_BYTES
from harken.errors import UserError

QUOTED = re.compile(r"""^(['"])(.*)\1\s*,\s*(.*)$""")


def parse_arff(line: str) -> tuple[np.ndarray, str]:
    """Frames (T, C) and the label of a row.

    Raises:
        ValueError: no number, or channels of different lengths.
    """
    quoted = QUOTED.match(line)
    rows, label = (
        (quoted[2].split("\\n"), quoted[3]) if quoted else ([line.rpartition(",")[0]], line.rpartition(",")[2])
    )
    channels = [np.array([float(cell) for cell in row.split(",")], np.float32) for row in rows]
    if len({len(channel) for channel in channels}) != 1:
        raise ValueError("its channels have different lengths")
    frames = np.stack(channels, axis=1)
    if not np.isfinite(frames).all():
        raise ValueError("a value is missing or infinite")
    return frames, label.strip().strip("'\"")


def data_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines after @data with their numbers, without comments.

    Raises:
        UserError: there is no @data.
    """
    lines = enumerate(read_lines(path, CELL_BYTES), start=1)
    if not any(line.strip().lower().startswith("@data") for _, line in lines):
        raise UserError(f"{path} has no line @data, so it is no ARFF file; check its format")
    for number, line in lines:
        if not line.startswith("%"):
            yield number, line
