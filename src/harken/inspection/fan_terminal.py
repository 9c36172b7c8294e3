"""A forecast as lines of text.

>>> import numpy as np
>>> picture = FanPicture("", np.array([1.0, 2.0, 3.0]), [0.1, 0.5, 0.9], np.array([[3.0, 4.0, 5.0]]))
>>> print("\\n".join(line.plain.rstrip() for line in lines(picture, 36, False, height=5)))
5 │                               ░
  │                               ●
3 │                     ·         ░
  │          ·
1 │·
  -2        -1         0         1
  · past  ● forecast  ░ 0.1 to 0.9
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rich.text import Text

from harken.inspection.fan import FanPicture
from harken.inspection.words import cut

WIDEST = 100


def lines(picture: FanPicture, width: int, color: bool, height: int = 14) -> list[Text]:
    """The curve over its axis, in at most `width` columns."""
    low, high = picture.range
    rows = {row: f"{high - (high - low) * row / (height - 1):.4g}" for row in range(0, height, 2)}
    label = max(len(name) for name in rows.values())
    across = max(min(width, WIDEST) - label - 3, 8)
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * across for _ in range(height)]

    def row_of(value: float) -> int:
        return round((1 - (min(max(float(value), low), high) - low) / (high - low)) * (height - 1))

    def column_of(step: int) -> int:
        return round(step / max(picture.steps - 1, 1) * (across - 1))

    if picture.shade is not None and picture.shade.max() > 0:
        for step, weight in enumerate(picture.shade / picture.shade.max()):
            for row in range(row_of(picture.past[step]), height):
                if weight > 0.25:
                    grid[row][column_of(step)] = ("▒" if weight > 0.6 else "░", "dim")
    start = len(picture.past)
    for _, below, above in picture.bands[:1]:
        for column in range(column_of(start), across):
            ahead = column / max(across - 1, 1) * (picture.steps - 1) - start
            edges = [float(np.interp(ahead, np.arange(len(below)), edge)) for edge in (above, below)]
            for row in range(row_of(edges[0]), row_of(edges[1]) + 1):
                grid[row][column] = ("░", "blue")
    for step, value in enumerate(picture.past):
        grid[row_of(value)][column_of(step)] = ("·", "")
    for step, value in enumerate(picture.median):
        grid[row_of(value)][column_of(start + step)] = ("●", "bold blue")
    for step, value in enumerate(picture.truth if picture.truth is not None else []):
        grid[row_of(value)][column_of(start + step)] = ("x", "bold red")
    drawn = [Text(cut(picture.title, width), style="bold" if color else "")] if picture.title else []
    for row, cells in enumerate(grid):
        line = Text(f"{rows.get(row, ''):>{label}} │")
        for sign, style in cells:
            line.append(sign, style if color and style else None)
        drawn.append(line)
    drawn.append(_axis(picture, label, across, column_of))
    names = [f"{sign} {name}" for sign, name in _legend(picture)]
    drawn.append(Text(cut(" " * (label + 1) + "  ".join(names), width), style="dim" if color else ""))
    return drawn


def _axis(picture: FanPicture, label: int, across: int, column_of: Callable[[int], int]) -> Text:
    places, free = [" "] * (across + label + 3), 0
    for step in picture.label_places(4):
        name = picture.label(step)
        at = min(column_of(step), max(across - len(name), 0))
        if at >= free:
            places[at : at + len(name)] = name
            free = at + len(name) + 2
    return Text(" " * (label + 1) + "".join(places).rstrip())


def _legend(picture: FanPicture) -> list[tuple[str, str]]:
    entries = [("·", "past"), ("●", "forecast"), *(("░", name) for name, _, _ in picture.bands[:1])]
    return entries + ([("x", "what came")] if picture.truth is not None else [])
