r"""Signals with labels out of files: arrays of frames (T, C), one for each example.

    ts       .ts of the UEA archive
    arrays   .npz: values (N, T, C), labels (N,), and where rows are shorter lengths (N,); or .npy without labels
    steps    a table with a row a time step, in windows    `harken.data.series.step_tables`
    rows     an example a row: numbers, then the label
    ucr      an example a row: the label, then numbers, as the UCR archive has them
    arff     .arff of the UCR and UEA archives: a row an example, its label last
                 univariate      1.2,0.7,...,left
                 multivariate    '1.2,0.7\n4.1,4.0',left      the channels of one example in quotes, divided by \n

>>> frames, label = parse_row("0, 100, 62, 99, 7", frame=2)
>>> frames.tolist(), label
([[0.0, 100.0], [62.0, 99.0]], '7')

>>> channels, label = parse_line("1,2,3:4,5,6:left")
>>> channels.tolist(), label
([[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], 'left')
>>> parse_arff("'1,2,3\\n4,5,6',left")[0].tolist() == channels.tolist()
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from harken.data.io.files import ending, read_arrays, read_lines, require_file
from harken.data.io.table import CELL_BYTES, is_number
from harken.data.series.step_tables import read_steps
from harken.data.text.examples import Labelled
from harken.data.text.examples_config import ExamplesConfig
from harken.errors import UserError

QUOTED = re.compile(r"""^(['"])(.*)\1\s*,\s*(.*)$""")


def parse_line(line: str) -> tuple[np.ndarray, str]:
    """Frames (T, C) and the label of a line of .ts.

    Raises:
        ValueError: no number, a missing value, or channels of different lengths.
    """
    *channels, label = line.split(":")
    if not channels:
        raise ValueError("there is no colon before the class")
    return _frames_of(channels), label.strip()


def parse_arff(line: str) -> tuple[np.ndarray, str]:
    """Frames (T, C) and the label of a row of ARFF.

    Raises:
        ValueError: as `parse_line`.
    """
    quoted = QUOTED.match(line)
    channels, label = (
        (quoted[2].split("\\n"), quoted[3]) if quoted else ([line.rpartition(",")[0]], line.rpartition(",")[2])
    )
    return _frames_of(channels), label.strip().strip("'\"")


def _frames_of(channels: Sequence[str]) -> np.ndarray:
    """(T, C) of channels whose numbers stand between commas."""
    columns = [np.array([float(number) for number in channel.split(",")], np.float32) for channel in channels]
    if len({len(column) for column in columns}) != 1:
        raise ValueError("its channels have different lengths")
    return _finite(np.stack(columns, axis=1))


def _finite(values: np.ndarray) -> np.ndarray:
    if not len(values) or not np.isfinite(values).all():
        raise ValueError("a value is missing or infinite")
    return values


def data_lines(path: Path, kind: str) -> Iterator[tuple[int, str]]:
    """The lines after @data with their numbers; `kind` is what errors call such a file.

    Raises:
        UserError: there is no @data, or values have time stamps.
    """
    lines = enumerate(read_lines(path, CELL_BYTES), start=1)
    for number, line in lines:
        head = line.strip().lower()
        if head.startswith("@timestamps true"):
            raise UserError(f"{path}, line {number} says that values have time stamps; write the values alone")
        if head.startswith("@data"):
            return lines
    raise UserError(f"{path} has no line @data, so it is no {kind} file; check its format")


def _parsed(
    path: Path, lines: Iterable[tuple[int, str]], parse: Callable[[str], tuple[np.ndarray, str]], what: str
) -> Labelled:
    """An example a line; blank lines are left out."""
    values, labels = [], []
    for number, line in lines:
        if not line.strip():
            continue
        try:
            frames, label = parse(line.strip())
        except ValueError as problem:
            raise UserError(f"{path}, line {number} is no {what} ({problem}); fix it") from None
        values.append(frames)
        labels.append(label)
    return Labelled(values, labels)


BY_ENDING = {
    ".ts": "ts",
    ".arff": "arff",
    ".npz": "arrays",
    ".npy": "arrays",
    ".csv": "steps",
    ".tsv": "steps",
    ".jsonl": "steps",
}


def read_signals(path: Path, data: ExamplesConfig) -> Labelled:
    """All signals of one file, with their labels as the file has them.

    Raises:
        UserError: what cannot be read, where, and what to do.
    """
    signals = READERS[signal_format(path, data)](require_file(path), data)
    if not len(signals):
        raise UserError(f"{path} holds no example; check data.window, which may be longer than every recording")
    return signals


def signal_format(path: Path, data: ExamplesConfig) -> str:
    """The format by `data.format`, or by the name of the file where that is auto."""
    if data.format != "auto":
        return data.format
    return BY_ENDING.get(ending(path), "rows")


def parse_row(line: str, frame: int) -> tuple[np.ndarray, str]:
    """Frames (T, C) and the label of a row.

    Raises:
        ValueError: no number, or numbers that do not make whole frames.
    """
    *numbers, label = line.replace(",", " ").split()
    values = np.array([float(number) for number in numbers], dtype=np.float32)
    if not len(values) or len(values) % frame:
        raise ValueError(f"{len(values)} numbers do not make frames of {frame}")
    return _finite(values).reshape(-1, frame), label


def _rows(path: Path, data: ExamplesConfig) -> Labelled:
    lines = enumerate(read_lines(path), start=1)
    return _parsed(path, lines, partial(parse_row, frame=data.frame), "row of numbers and a label")


def parse_ucr(line: str) -> tuple[np.ndarray, str]:
    """Frames (T, 1) and the label of a row that begins with it; NaN at the end fills a shorter signal.

    >>> frames, label = parse_ucr("1.0 0.5 0.25 NaN")
    >>> frames.tolist(), label
    ([[0.5], [0.25]], '1')

    Raises:
        ValueError: no number, or a missing one before others.
    """
    label, *numbers = line.replace(",", " ").split()
    while numbers and numbers[-1].lower() == "nan":
        numbers.pop()
    values = np.array([float(number) for number in numbers], dtype=np.float32)
    return _finite(values)[:, None], f"{float(label):g}" if is_number(label) else label


def _ucr(path: Path, data: ExamplesConfig) -> Labelled:
    return _parsed(path, enumerate(read_lines(path), start=1), parse_ucr, "row of a label and numbers")


def _arff(path: Path, data: ExamplesConfig) -> Labelled:
    lines = (item for item in data_lines(path, "ARFF") if not item[1].startswith("%"))  # comments
    return _parsed(path, lines, parse_arff, "row of numbers and a label")


def _ts(path: Path, data: ExamplesConfig) -> Labelled:
    return _parsed(path, data_lines(path, ".ts"), parse_line, "example of a .ts file")


def _arrays(path: Path, data: ExamplesConfig) -> Labelled:
    parts = read_arrays(path)
    if "values" not in parts:
        raise UserError(f"{path} has no array 'values' but {', '.join(parts)}; give values (N, T, C) and labels (N,)")
    values = parts["values"]
    if values.ndim == 2:  # one example, or examples of one channel
        values = values[None] if "labels" not in parts else values[:, :, None]
    if values.ndim != 3 or not np.isfinite(values).all():
        raise UserError(f"{path}: values have shape {values.shape}; give finite numbers (examples, time, channels)")
    labels = [str(label) for label in parts["labels"].tolist()] if "labels" in parts else [""] * len(values)
    lengths = parts["lengths"].tolist() if "lengths" in parts else [values.shape[1]] * len(values)
    if not len(labels) == len(lengths) == len(values):
        raise UserError(f"{path} has {len(values)} values, {len(labels)} labels and {len(lengths)} lengths; match them")
    frames = [example[: int(length)].astype(np.float32) for example, length in zip(values, lengths, strict=True)]
    return Labelled(frames, labels)


READERS: dict[str, Callable[[Path, ExamplesConfig], Labelled]] = {
    "ts": _ts,
    "arrays": _arrays,
    "steps": read_steps,
    "rows": _rows,
    "ucr": _ucr,
    "arff": _arff,
}
