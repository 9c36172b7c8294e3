"""Signals from tables with a row a time step, cut into windows.

A recording is a file, or the rows that one column says belong together. Windows of `window` frames begin every `step`
frames; the label of a window is that of most of its frames, or windows with several labels are left out.

>>> labels = ["sit"] * 4 + ["walk"] * 4
>>> [(slice_.start, label) for slice_, label in windows(labels, 4, 2, "majority")]
[(0, 'sit'), (2, 'sit'), (4, 'walk')]
>>> [(slice_.start, label) for slice_, label in windows(labels, 4, 2, "skip")]
[(0, 'sit'), (4, 'walk')]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.table import column_names, is_number, read_table
from harken.data.text.examples import Labelled
from harken.data.text.examples_config import ExamplesConfig
from harken.errors import UserError


def windows(labels: Sequence[str], window: int | None, step: int | None, mixed: str) -> Iterator[tuple[slice, str]]:
    """The span of each window, and its label; one that would reach over the end is not taken."""
    size = window or len(labels)
    for start in range(0, len(labels) - size + 1, step or max(1, size // 2)):
        span = slice(start, start + size)
        counts = Counter(labels[span])
        if mixed == "skip" and len(counts) > 1:
            continue
        yield span, counts.most_common(1)[0][0]
        if window is None:
            return


def read_steps(path: Path, data: ExamplesConfig, table: Any = None) -> Labelled:
    """The windows of one file, or of a table in memory that is called `path`.

    Raises:
        UserError: a column that is not there, or a cell that is no number.
    """
    source = path if table is None else table
    other = {data.label_column, data.recording, data.group}
    channels = data.channels or [name for name in column_names(source, header=data.header) if name not in other]
    grouped = data.group if data.group not in (None, "folder", "file") else None
    extra = list(dict.fromkeys(name for name in (data.recording, grouped) if name))
    table = read_table(source, [*channels, data.label_column, *extra], header=data.header)
    frames = np.stack([_numbers(table[name], name, path) for name in channels], axis=1)  # (T, C)
    recordings = table[data.recording] if data.recording else [path.name] * len(frames)
    labels = [str(label).strip() for label in table[data.label_column]]
    values, window_labels, groups = [], [], []
    for start, stop in _runs(recordings):
        for span, label in windows(labels[start:stop], data.window, data.step, data.mixed):
            first = start + span.start
            values.append(frames[first : start + span.stop])
            window_labels.append(label)
            groups.append(_group(path, data.group, table[grouped][first] if grouped else None, recordings[first]))
    return Labelled(values, window_labels, groups)


def _group(path: Path, kind: str | None, cell: Any, recording: Any) -> str:
    """The group that a window belongs to. Without a column it is its recording, because its windows overlap."""
    if cell is not None and str(cell):
        return str(cell)
    if kind == "folder":
        return path.parent.name
    file = f"{path.parent.name}/{path.name}"  # the folders above say nothing about the data and may change
    return file if kind == "file" else f"{file} {recording}"


def _runs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The begins and ends of runs of the same name."""
    start = 0
    for stop in range(1, len(names) + 1):
        if stop == len(names) or names[stop] != names[start]:
            yield start, stop
            start = stop


def _numbers(cells: Sequence[str], name: str, path: Path) -> np.ndarray:
    try:
        column = np.array(cells, dtype=np.float32)
    except ValueError:
        bad = next(number for number, cell in enumerate(cells) if not is_number(cell))
        raise UserError(
            f"{path}, row {bad + 1} has {cells[bad]!r} in column {name!r}, which is no number; fix it, or say in "
            "data.channels which columns are the signal"
        ) from None
    if not np.isfinite(column).all():
        bad = int(np.flatnonzero(~np.isfinite(column))[0])
        raise UserError(f"{path}, row {bad + 1} has no finite number in column {name!r}; fill or remove the row")
    return column
