"""A figure in the terminal, in plain characters: lines as letters on a grid, bars as blocks, heat as shades.

>>> print(plot(Figure("", [Bars("", "", "loss", ["RNN", "LSTM"], [Group("", [2.0, 1.0])])]), width=24))
loss
RNN   ████████████  2
LSTM  ██████        1
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from harken.lab.figure import Bars, Figure, Group, Heat, Lines

__all__ = ["Group", "plot"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHADES = " ░▒▓█"
HEIGHT = 12  # lines of a grid


def plot(figure: Figure, width: int = 80) -> str:
    """All panels, one below the other, in at most `width` columns where words allow it."""
    drawn = []
    for panel in figure.panels:
        if isinstance(panel, Lines):
            lines = _lines(panel, width)
        elif isinstance(panel, Bars):
            lines = _bars(panel, width)
        else:
            lines = _heat(panel)
        drawn.append("\n".join([panel.title, *lines] if panel.title else lines))
    return "\n\n".join(drawn)


def _scaled(values: Sequence[float], log: bool, limits: tuple[float, float] | None) -> tuple[float, float]:
    """The least and largest value on the axis, as the axis sees them."""
    least, largest = limits or (min(values, default=0.0), max(values, default=1.0))
    low, high = _on(least, log), _on(largest, log)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _on(value: float, log: bool) -> float:
    return math.log10(max(value, 1e-300)) if log else value


def _lines(panel: Lines, width: int) -> list[str]:
    points = [
        [(x, y) for x, y in series.points() if (x > 0 or not panel.log_x) and (y > 0 or not panel.log_y)]
        for series in panel.series
    ]
    left, right = _scaled([x for line in points for x, _ in line], panel.log_x, panel.x_limits)
    bottom, top = _scaled([y for line in points for _, y in line], panel.log_y, panel.y_limits)
    names = [_tick(top, panel.log_y), _tick(bottom, panel.log_y)]
    label = max(len(name) for name in names)
    across = max(min(width - label - 2, 72), 10)
    grid = [[" "] * across for _ in range(HEIGHT)]
    for letter, line in zip(LETTERS, points, strict=False):
        for x, y in line:
            column = round((_on(x, panel.log_x) - left) / (right - left) * (across - 1))
            row = round((top - _on(y, panel.log_y)) / (top - bottom) * (HEIGHT - 1))
            if 0 <= column < across and 0 <= row < HEIGHT:
                grid[row][column] = letter if grid[row][column] in (" ", letter) else "*"
    lines = [panel.y_label]
    for row, cells in enumerate(grid):
        name = names[0] if row == 0 else names[1] if row == HEIGHT - 1 else ""
        lines.append(f"{name:>{label}} |{''.join(cells)}".rstrip())
    first, last = _tick(left, panel.log_x), _tick(right, panel.log_x)
    lines.append(" " * label + " +" + "-" * across)
    middle = max(across - len(first) - len(last), 1)
    lines.append(" " * (label + 2) + first + f"{panel.x_label:^{middle}}" + last)
    names = [f"{letter}: {series.label}" for letter, series in zip(LETTERS, panel.series, strict=False) if series.label]
    legend = [" " * (label + 2)]
    for name in names:
        if len(legend[-1]) + len(name) > max(width, label + 12) and legend[-1].strip():
            legend.append(" " * (label + 2))
        legend[-1] += name + "   "
    return [*lines, *(line.rstrip() for line in legend if line.strip())]


def _tick(value: float, log: bool) -> str:
    return f"{10**value:.3g}" if log else f"{value:.3g}"


def _bars(panel: Bars, width: int) -> list[str]:
    rows = [
        (" ".join(word for word in (name, group.label) if word), group.values[index])
        for index, name in enumerate(panel.names)
        for group in panel.groups
    ]
    finite = [value for _, value in rows if math.isfinite(value) and (value > 0 or not panel.log_y)]
    low, high = _scaled(finite, panel.log_y, None)
    low = low - (high - low) * 0.1 if panel.log_y else min(0.0, low)
    label = max(len(name) for name, _ in rows)
    room = max(width - label - 6, 10)
    lines = [panel.y_label + (" (log scale)" if panel.log_y else "")]
    for name, value in rows:
        known = math.isfinite(value) and (value > 0 or not panel.log_y)
        share = (_on(value, panel.log_y) - low) / (high - low) if known and high > low else 0.0
        bar = "█" * round(min(max(share, 0.0), 1.0) * min(room - 2, 60))
        number = (panel.form or "{:.3g}").format(value) if math.isfinite(value) else "-"
        lines.append(f"{name:<{label}}  {bar:<{min(room - 2, 60)}}  {number}")
    return lines


def _heat(panel: Heat) -> list[str]:
    finite = [value for row in panel.values for value in row if math.isfinite(value)]
    low = min(finite, default=0.0) if panel.low is None else panel.low
    high = max(finite, default=1.0) if panel.high is None else panel.high
    bottom, top = _on(low, panel.log), _on(high, panel.log)
    span = (top - bottom) or 1.0
    label = max((len(name) for name in panel.rows), default=0)
    cells = [
        [
            SHADES[round(min(max((_on(value, panel.log) - bottom) / span, 0.0), 1.0) * 4)]
            + " "
            + (panel.form or "{:.2g}").format(value)
            for value in row
        ]
        for row in panel.values
    ]
    wide = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(panel.columns)]
    head = " " * label + "  " + "  ".join(f"{name:<{size}}" for name, size in zip(panel.columns, wide, strict=True))
    body = [
        f"{name:<{label}}  " + "  ".join(f"{cell:<{size}}" for cell, size in zip(row, wide, strict=True))
        for name, row in zip(panel.rows, cells, strict=True)
    ]
    return [f"{panel.y_label} down, {panel.x_label} across", head.rstrip(), *(line.rstrip() for line in body)]
