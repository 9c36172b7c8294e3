"""Drawings from files.

    .npz             {train,valid,test}_points (N, 3) = dx, dy, lifted, and {...}_offsets: drawing k is
                     points[offsets[k]:offsets[k + 1]]; one file holds all splits, and no texts
    .tra .tes        pendigits: 16 numbers from 0 to 100 (x, y of 8 points, y upwards), then the digit (.gz, .xz too)
    .jsonl           {"strokes": [[[x, y], ...], ...], "text": "..."} a line, y downwards; the text may be left out

>>> digit = pendigit("0,100, 62, 99,100, 92, 66, 61, 43, 25, 21,  0, 11, 34, 73, 37, 7", "here, line 1")
>>> digit.text, digit.points[1].tolist()
('7', [62.0, 1.0, 0.0])
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harken.data.io.files import ending, read_arrays, read_lines, require_file
from harken.data.strokes.drawing import Drawing
from harken.errors import UserError

NAMES = ("train", "valid", "test")


def read_strokes(path: str | Path) -> list[Drawing]:
    """The drawings of a file that holds one split.

    Raises:
        UserError: a file that is missing, of another kind or damaged, with the line.
    """
    path = require_file(path)
    readers: dict[str, Callable[[str, str], Drawing]] = {
        ".jsonl": drawing_of_json,
        ".ndjson": drawing_of_json,
        ".tra": pendigit,
        ".tes": pendigit,
    }
    read = readers.get(ending(path))
    if read is None:
        raise UserError(
            f"{path} is no file of strokes by its ending; name it .jsonl, .tra or .tes, or .npz as data.file"
        )
    lines = enumerate(read_lines(path), 1)
    drawings = [read(line, f"{path}, line {number}") for number, line in lines if line.strip()]
    if not drawings:
        raise UserError(f"{path} is empty; give at least one drawing")
    return drawings


def read_npz(path: str | Path) -> dict[str, list[Drawing]]:
    """All the splits of one file.

    Raises:
        UserError: the file is damaged, or lacks an array.
    """
    arrays = read_arrays(path, "copy it again")
    splits = {}
    for name in NAMES:
        points, offsets = (arrays.get(f"{name}_{part}") for part in ("points", "offsets"))
        if points is None or offsets is None:
            names = ", ".join(sorted(arrays)) or "nothing"
            raise UserError(f"{path} has no {name}_points and {name}_offsets, but {names}; name its arrays so")
        fits = points.ndim == 2 and points.shape[1] == 3 and len(offsets) and offsets[0] == 0
        if not fits or offsets[-1] != len(points) or (np.diff(offsets) < 1).any():
            raise UserError(f"{path}: {name}_offsets do not cut {name}_points {points.shape} into drawings; fix them")
        splits[name] = [Drawing(part.astype(np.float32)) for part in np.split(points, offsets[1:-1])]
    return splits


def drawing_of_json(line: str, where: str) -> Drawing:
    """One line of a JSONL file."""
    try:
        record: Any = json.loads(line)
    except ValueError as problem:
        raise no_drawing(where, problem) from None
    return drawing_of(record, where)


def drawing_of(record: Any, where: str) -> Drawing:
    """A drawing from {"strokes": [[[x, y], ...], ...], "text": "..."}, whose strokes may be arrays.

    Raises:
        UserError: something else; `where` is what errors call it.
    """
    try:
        strokes = [np.asarray(stroke, dtype=np.float64) for stroke in record["strokes"]]
        text = record.get("text")
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise no_drawing(where, problem) from None
    shaped = strokes and all(stroke.ndim == 2 and stroke.shape[1] == 2 and len(stroke) for stroke in strokes)
    if not shaped or not all(np.isfinite(stroke).all() for stroke in strokes):
        raise UserError(f"{where} has a stroke that is no list of [x, y] pairs of numbers; fix it")
    if text is not None and not isinstance(text, str):
        raise UserError(f"{where} has a text that is no string; put it in quotes, or leave it out")
    return Drawing.of(strokes, text)


def no_drawing(where: str, problem: Exception) -> UserError:
    """The error about something that is no drawing."""
    return UserError(f'{where} is not {{"strokes": [[[x, y], ...], ...], "text": "..."}} ({problem}); fix it')


def pendigit(line: str, where: str) -> Drawing:
    """One line of pendigits."""
    try:
        *numbers, digit = (int(number) for number in line.split(","))
    except ValueError:
        numbers, digit = [], -1
    if len(numbers) != 16 or digit not in range(10):
        raise UserError(f"{where} is not 16 whole numbers and a digit with commas between; fix it")
    return Drawing.of([np.array(numbers).reshape(8, 2) * [1, -1] + [0, 100]], str(digit))
