"""Lines as signs on a grid, the first series on top, and bars, also those of a text's tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.figure.palette import DARK
from harken.inspection.figure.spec import Bars, Lines, Tokens
from harken.inspection.figure.terminal.cells import TALLEST, WIDEST, series_style
from harken.inspection.figure.text import cut, fill, printable
from harken.inspection.figure.values import log_tick, round_ticks

EIGHTHS = " ▏▎▍▌▋▊▉"
SIGNS = "●▲■◆○△□◇"


def draw_lines(panel: Lines, width: int, color: bool) -> list[Text]:
    points = [
        [(x, y) for x, y in series.points() if (x > 0 or not panel.log_x) and (y > 0 or not panel.log_y)]
        for series in panel.series
    ]
    edges = [
        (float(x), float(y))
        for band in panel.bands
        for ys in (band.low, band.high)
        for x, y in zip(band.x, ys, strict=True)
    ]
    every = [point for line in points for point in line] + edges
    left, right = _limits([x for x, _ in every], panel.log_x, panel.x_limits)
    bottom, top = _limits([y for _, y in every], panel.log_y, panel.y_limits)
    height = 5 if panel.flat else TALLEST
    ticks = _ticks(bottom, top, panel.log_y, 2 if panel.flat else 5)
    rows = {round((top - _on(value, panel.log_y)) / (top - bottom) * (height - 1)): name for value, name in ticks}
    label = max(map(len, rows.values()), default=0)
    across = max(min(width, WIDEST) - label - 2, 6)
    grid: list[list[tuple[str, Style | str]]] = [[(" ", "")] * across for _ in range(height)]

    def place(x: float, y: float) -> tuple[int, int]:
        column = round((_on(x, panel.log_x) - left) / (right - left) * (across - 1))
        row = round((top - _on(y, panel.log_y)) / (top - bottom) * (height - 1))
        return min(max(row, 0), height - 1), column

    for mark in panel.marks:
        if mark.axis == "y" and bottom <= _on(mark.at, panel.log_y) <= top:
            grid[place(1.0, mark.at)[0]] = [("┄", "dim" if color else "")] * across
    if panel.shade is not None:
        _shade(grid, panel, place, color)
    for band in panel.bands[:1]:  # the widest
        low, high = (np.asarray(values, dtype=float) for values in (band.low, band.high))
        for column in range(across):
            x = left + (right - left) * column / max(across - 1, 1)
            if min(band.x) <= x <= max(band.x):
                (first, _), (last, _) = (place(x, float(np.interp(x, band.x, edge))) for edge in (high, low))
                for row in range(first, last + 1):
                    grid[row][column] = ("░", series_style(band.colour) if color else "")
    styles = [
        series_style(index if series.colour is None else series.colour) if color else ""
        for index, series in enumerate(panel.series)
    ]
    for number, line in reversed(list(enumerate(points))):
        for x, y in _dense(line, across, panel.log_x):
            row, column = place(x, y)
            if 0 <= column < across:
                grid[row][column] = (SIGNS[number % len(SIGNS)], styles[number])
    drawn = [Text(cut(panel.y_label, width), style="dim" if color else "")] if panel.y_label else []
    for row, cells in enumerate(grid):
        line_text = Text(f"{rows.get(row, ''):>{label}} {'┤' if row in rows else '│'}")
        for sign, style in cells:
            line_text.append(sign, style)
        drawn.append(line_text)
    drawn += [Text(" " * (label + 1) + "└" + "─" * across), _axis(panel, left, right, label, across)]
    if panel.x_label:
        drawn.append(Text(" " * (label + 2) + cut(panel.x_label, across), style="dim" if color else ""))
    return drawn + _legend(panel, styles, label + 2, width, color)


def _shade(grid: list[list[tuple[str, Style | str]]], panel: Lines, column_of: Any, color: bool) -> None:
    """Columns below the first series where its weights are large."""
    assert panel.shade is not None
    most = max(max(panel.shade, default=0.0), 1e-12)
    for x, y, weight in zip(panel.series[0].x, panel.series[0].y, panel.shade, strict=True):
        row, column = column_of(float(x), float(y))
        if weight / most > 0.25 and 0 <= column < len(grid[0]):
            for below in range(row, len(grid)):
                grid[below][column] = ("▒" if weight / most > 0.6 else "░", "dim" if color else "")


def _limits(values: list[float], log: bool, limits: tuple[float, float] | None) -> tuple[float, float]:
    """The ends of an axis, as the axis sees them."""
    least, largest = limits or (min(values, default=1.0), max(values, default=1.0))
    low, high = _on(least, log), _on(largest, log)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _on(value: float, log: bool) -> float:
    return math.log10(max(value, 1e-300)) if log else value


def _ticks(low: float, high: float, log: bool, most: int) -> list[tuple[float, str]]:
    """Values and their names, between two ends given as the axis sees them."""
    if not log:
        return [(value, f"{value:.6g}") for value in round_ticks(low, high, most)]
    step = max(1, math.ceil((high - low) / most))
    powers = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, step)
    ticks = [10.0**power for power in powers] if len(powers) > 1 else [10**low, 10**high]
    return [(value, log_tick(float(f"{value:.3g}"))) for value in ticks]


def _dense(line: list[tuple[float, float]], across: int, log: bool) -> list[tuple[float, float]]:
    """Points filled in between where they are so close that a gap would be an accident of the grid."""
    if log or len(line) < across // 3:
        return line
    filled = [((1 - t) * a + t * c, (1 - t) * b + t * d) for (a, b), (c, d) in pairwise(line) for t in (0.0, 0.5)]
    return [*filled, *line[-1:]]


def _axis(panel: Lines, left: float, right: float, label: int, across: int) -> Text:
    letters, free = [" "] * (across + 1), 0
    ticks = list(panel.x_ticks) or _ticks(left, right, panel.log_x, max(across // 9, 2))
    for value, name in ticks:
        share = (_on(value, panel.log_x) - left) / (right - left)
        start = max(min(round(share * (across - 1)) - len(name) // 2, across - len(name)), 0)
        if 0 <= share <= 1 and start >= free:
            letters[start : start + len(name)] = printable(name)
            free = start + len(name) + 1
    return Text(" " * (label + 2) + "".join(letters).rstrip()[:across])


def _legend(panel: Lines, styles: list[Style | str], indent: int, width: int, color: bool) -> list[Text]:
    entries: list[tuple[str, Style | str, str]] = [
        (SIGNS[number % len(SIGNS)], styles[number], f"{series.label}: {series.note}" if series.note else series.label)
        for number, series in enumerate(panel.series)
    ]
    entries += [("░", series_style(band.colour) if color else "", band.label) for band in panel.bands[:1]]
    entries += [("┄", "", mark.label) for mark in panel.marks if mark.axis == "y"]
    drawn, line = [], Text(" " * indent)
    for sign, style, name in entries:
        if not name:
            continue
        name = cut(name, max(width - indent - 2, 1))
        if len(line) > indent and cell_len(line.plain) + 2 + cell_len(name) + 2 > width:
            drawn.append(line)
            line = Text(" " * indent)
        line.append("  " if len(line) > indent else "").append(sign, style).append(f" {name}")
    return [*drawn, line] if len(line) > indent else drawn


def draw_bars(panel: Bars, width: int, color: bool) -> list[Text]:
    rows = [
        (" ".join(word for word in (name, group.label) if word), float(group.values[at]), number)
        for at, name in enumerate(panel.names)
        for number, group in enumerate(panel.groups)
    ]
    known = [value for _, value, _ in rows if math.isfinite(value) and (value > 0 or not panel.log_y)]
    low, high = _limits(known, panel.log_y, None)
    low = low - (high - low) * 0.1 if panel.log_y else min(0.0, low)
    shares = [
        (_on(value, panel.log_y) - low) / (high - low)
        if math.isfinite(value) and (value > 0 or not panel.log_y)
        else 0.0
        for _, value, _ in rows
    ]
    numbers = [(panel.form or "{:.3g}").format(value) if math.isfinite(value) else "-" for _, value, _ in rows]
    styles = [series_style(number) if color else "" for *_, number in rows]
    title = panel.y_label + (" (log scale)" if panel.log_y else "")
    heading = [Text(cut(title, width), style="dim" if color else "")] if title else []
    return heading + _bar_lines([name for name, *_ in rows], shares, numbers, styles, width)


def draw_tokens(panel: Tokens, width: int, color: bool) -> list[Text]:
    shares = [value / panel.high for value in panel.values]
    styles = [Style(color=Color.from_rgb(*DARK.shade(0.35 + 0.65 * share))) if color else "" for share in shares]
    numbers = [f"{value:.2f}" for value in panel.values]
    return _bar_lines(list(panel.tokens), shares, numbers, styles, width)


def _bar_lines(
    names: list[str], shares: list[float], numbers: list[str], styles: Sequence[Style | str], width: int
) -> list[Text]:
    label = min(max((cell_len(printable(name)) for name in names), default=0), max(24, width // 3))
    number = max(map(len, numbers), default=0)
    room = max(4, min(width, WIDEST) - label - number - 4)
    drawn = []
    for name, share, text, style in zip(names, shares, numbers, styles, strict=True):
        full, rest = divmod(round(8 * room * min(max(share, 0.0), 1.0)), 8)
        bar = ("█" * full + (EIGHTHS[rest] if rest else ""))[:room].ljust(room)
        drawn.append(Text(fill(name, label) + "  ").append(bar, style).append(f"  {text:<{number}}"))
    return drawn
