"""Images, drawings, sounds and signals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.figure.palette import DARK, FAINT
from harken.inspection.figure.spec import Images, Raster, Strips, Strokes
from harken.inspection.figure.terminal.cells import ABOVE, TALLEST, cell, cell_style
from harken.inspection.figure.text import cut, fill, wrap
from harken.inspection.figure.values import round_ticks

LEVELS = "▁▂▃▄▅▆▇█"
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille pattern: row, column


def draw_images(panel: Images, width: int, color: bool) -> list[Text]:
    """A grid of blocks for every word, side by side as far as they fit; with colours the image itself first."""
    rows, columns = panel.weights.shape[1:]
    maps = [(word, _blocks(strength, color)) for word, strength in zip(panel.words, panel.strengths(), strict=True)]
    if color:
        maps.insert(0, ("", _coarse(panel.pixels, rows, columns)))
    across = max(1, (width + 2) // (columns * 2 + 2))
    drawn = [Text(line) for note in panel.notes for line in wrap(note, width)]
    for start in range(0, len(maps), across):
        group = maps[start : start + across]
        drawn += [Text()] if start else []
        drawn.append(Text("  ".join(fill(word, columns * 2) for word, _ in group), style="bold" if color else ""))
        drawn += [Text("  ").join(blocks[row] for _, blocks in group) for row in range(rows)]
    return drawn


def _blocks(strength: np.ndarray, color: bool) -> list[Text]:
    return (
        [Text.assemble(*(cell(float(value), 2, color) for value in row)) for row in strength.round(2)]
        if color
        else [
            Text("".join(ABOVE[0 if value < FAINT else min(1 + int(value * 4), 4)] * 2 for value in row))
            for row in strength
        ]
    )


def _coarse(image: np.ndarray, rows: int, columns: int) -> list[Text]:
    """The image with one colour a region."""
    drawn = []
    for band in np.array_split(image.astype(np.float64), rows, axis=0):
        means = [part.mean((0, 1)) for part in np.array_split(band, columns, axis=1)]
        drawn.append(Text.assemble(*(("  ", Style(bgcolor=Color.from_rgb(*mean))) for mean in means)))
    return drawn


def draw_strokes(panel: Strokes, width: int, color: bool) -> list[Text]:
    """Braille dots, drawings below each other."""
    drawn: list[str] = []
    for strokes, caption in zip(panel.drawings, panel.captions, strict=True):
        drawn += [*([""] if drawn else []), *_braille(strokes, width), *([cut(caption, width)] if caption else [])]
    return [Text(line) for line in drawn]


def _braille(strokes: Sequence[np.ndarray], columns: int) -> list[str]:
    points = np.concatenate(list(strokes)) if strokes else np.zeros((1, 2))
    low, size = points.min(0), np.maximum(points.max(0) - points.min(0), 1e-9)
    scale = min(2 * columns / size[0], 4 * TALLEST / size[1]) * 0.999
    cells = np.zeros((int(size[1] * scale) // 4 + 1, int(size[0] * scale) // 2 + 1), dtype=int)
    for stroke in strokes:
        path = (stroke - low) * scale
        parts = [path[:1]]
        for start, end in pairwise(path):  # none left out between two points
            count = int(np.abs(end - start).max()) + 1
            parts.append(start + (end - start) * (np.arange(1, count + 1) / count)[:, None])
        for x, y in np.floor(np.concatenate(parts) + 1e-9).astype(int):
            cells[y // 4, x // 2] |= DOTS[y % 4][x % 2]
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in cells]


def draw_raster(panel: Raster, width: int, color: bool) -> list[Text]:
    """A line for each named row; without names twelve lines, in colours two rows each (half blocks)."""
    named = list(panel.rows)
    label = 6  # the same for all, so that time stands below time
    room = max(4, min(width, 150) - label)
    values = (
        panel.values
        if named
        else np.stack([part.mean(0) for part in _split(panel.values, 2 * TALLEST if color else TALLEST)])
    )
    join = np.max if named else np.mean
    values = np.stack([join(part, axis=1) for part in _columns(values, room)], axis=1)
    drawn: list[Text] = []
    if named:
        for name, row in zip(named, values, strict=True):
            line = Text(fill(name, label - 1) + " ", style="bold" if color else "")
            for value in row:
                line.append(*((" ", cell_style(round(float(value), 2))) if color else (_sign(value), "")))
            drawn.append(line)
        return drawn
    if color:
        for upper, lower in zip(values[::-1][0::2], values[::-1][1::2], strict=False):
            line = Text(" " * label)
            for above, below in zip(upper, lower, strict=True):
                line.append("▀", Style(color=_shade_of(above), bgcolor=_shade_of(below)))
            drawn.append(line)
    else:
        drawn = [Text(" " * label + "".join(_sign(value) for value in row)) for row in values[::-1]]
    return [*drawn, Text(" " * label + _seconds(panel.x_limits, room), style="dim" if color else "")]


def _split(values: np.ndarray, parts: int) -> list[np.ndarray]:
    return np.array_split(values, min(parts, len(values)))


def _columns(values: np.ndarray, count: int) -> list[np.ndarray]:
    """The columns that fall into each of `count` parts of the whole width, at least one in each."""
    edges = np.linspace(0, values.shape[1], count + 1)
    return [values[:, int(a) : max(int(np.ceil(b)), int(a) + 1)] for a, b in pairwise(edges)]


def _sign(value: float) -> str:
    return " ░▒▓█"[min(round(float(value) * 4), 4)]


def _shade_of(value: float) -> Color:
    return Color.from_rgb(*DARK.shade(round(float(value), 2)))


def _seconds(limits: tuple[float, float], room: int) -> str:
    axis = [" "] * room
    for tick in round_ticks(*limits, 7):
        start, name = int((tick - limits[0]) / (limits[1] - limits[0]) * room), f"{tick:g}s"
        if start + len(name) <= room:
            axis[start : start + len(name)] = name
    return "".join(axis)


def draw_strips(panel: Strips, width: int, color: bool) -> list[Text]:
    """A row of bars for each channel and one of shades for the weights."""
    label = min(max(map(len, [*panel.names, "weights"])), max(6, width // 4))
    steps = np.array_split(np.arange(len(panel.values)), min(max(1, width - label - 2), len(panel.values)))
    drawn = []
    for name, curve in zip(panel.names, panel.scaled().T, strict=True):
        bars = "".join(LEVELS[round(float(curve[step].mean()) * (len(LEVELS) - 1))] for step in steps)
        drawn.append(Text(f"{fill(name, label)}  {bars}"))
    shades = "".join(ABOVE[round(float(panel.weights[step].max()) * (len(ABOVE) - 1))] for step in steps)
    return [*drawn, Text(f"{'weights':<{label}}  {shades}")]
