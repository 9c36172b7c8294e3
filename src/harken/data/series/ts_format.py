r"""The .ts files of the UEA and UCR archives: a line an example, channels parted by colons, the class last.

Bagnall et al. (2018). Examples may differ in length; the channels of one may not.

>>> channels, label = parse_line("1,2,3:4,5,6:left")
>>> channels.tolist(), label
([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], 'left')
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harken.data.io.files import read_lines
from harken.data.io.table import CELL_BYTES
from harken.data.text.examples import Labelled
from harken.errors import UserError


def parse_line(line: str) -> tuple[np.ndarray, str]:
    """Frames (T, C) and the label.

    Raises:
        ValueError: no number, a missing value, or channels of different lengths.
    """
    *channels, label = line.split(":")
    if not channels:
        raise ValueError("there is no colon before the class")
    columns = [np.array([float(number) for number in channel.split(",")], np.float32) for channel in channels]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("its channels have different lengths")
    frames = np.stack(columns, axis=1)
    if not np.isfinite(frames).all():
        raise ValueError("a value is missing or infinite")
    return frames, label.strip()


def read_ts(path: Path) -> Labelled:
    """Every example of a file.

    Raises:
        UserError: the file and line, and what is wrong with it.
    """
    values, labels, begun = [], [], False
    for number, line in enumerate(read_lines(path, CELL_BYTES), start=1):
        line = line.strip()
        if not begun:
            begun = line.lower().startswith("@data")
            if line.lower().startswith("@timestamps true"):
                raise UserError(f"{path}, line {number} says that values have time stamps; write the values alone")
            continue
        if not line:
            continue
        try:
            frames, label = parse_line(line)
        except ValueError as problem:
            raise UserError(f"{path}, line {number} is no example of a .ts file ({problem}); fix it") from None
        values.append(frames)
        labels.append(label)
    if not begun:
        raise UserError(f"{path} has no line @data, so it is no .ts file; check its format")
    return Labelled(values, labels)
