"""The values of a figure: as JSON, as a table for readers who cannot see it, and as numbers and ticks on its axes.

>>> from harken.inspection.figure.spec import Series
>>> table(Lines("", "step", "loss", [Series("LSTM", [1, 2], [0.5, 0.25])], log_y=True))
(['step', 'LSTM'], [['1', '0.5'], ['2', '0.25']])
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from harken.inspection.figure.spec import Bars, Heat, Images, Lines, Panel, Raster, Strips, Tokens
from harken.inspection.figure.tree import Tree

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def plain(value: Any, digits: int | None = None) -> Any:
    """A value as JSON can hold it: numbers that are not finite are None, the others rounded to `digits` figures.

    >>> from harken.inspection.figure.spec import Mark
    >>> plain({"a": (1, float("nan"), 0.1234567), 2: Mark(0.5, "half")}, digits=5)
    {'a': [1, None, 0.12346], '2': {'at': 0.5, 'label': 'half', 'axis': 'y'}}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {part.name: plain(getattr(value, part.name), digits) for part in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist(), digits)
    if isinstance(value, dict):
        return {str(key): plain(part, digits) for key, part in value.items()}
    if isinstance(value, float):
        return None if not math.isfinite(value) else value if digits is None else float(f"{value:.{digits}g}")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(part, digits) for part in value]
    return value if isinstance(value, str | int | None) else str(value)


def table(panel: Panel) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the numbers in a panel, for readers who cannot see it."""
    if isinstance(panel, Lines):
        positions = sorted({float(x) for series in panel.series for x in series.x})
        known = [dict(zip(map(float, series.x), map(float, series.y), strict=True)) for series in panel.series]
        names = dict(zip(positions, panel.names, strict=False)) if panel.names else {}
        rows = [[names.get(x, f"{x:g}"), *(number(line.get(x, math.nan)) for line in known)] for x in positions]
        bands = [
            dict(zip(map(float, band.x), zip(band.low, band.high, strict=True), strict=True)) for band in panel.bands
        ]
        for row, x in zip(rows, positions, strict=True):
            row += [" to ".join(number(float(edge)) for edge in band[x]) if x in band else "" for band in bands]
        return [panel.x_label, *(entry.label for entry in panel.series), *(entry.label for entry in panel.bands)], rows
    if isinstance(panel, Bars):
        rows = [[name, *(number(group.values[at]) for group in panel.groups)] for at, name in enumerate(panel.names)]
        return [panel.x_label, *(group.label or panel.y_label for group in panel.groups)], rows
    if isinstance(panel, Heat):
        rows = [
            [name, *(panel.number(row, column, panel.form or "{:.2f}") for column in range(len(panel.columns)))]
            for row, name in enumerate(panel.rows)
        ]
        return [f"{panel.y_label} ↓ {panel.x_label} →".strip(), *panel.columns], rows
    if isinstance(panel, Tokens):
        return ["token", panel.unit], [[t, f"{v:.3f}"] for t, v in zip(panel.tokens, panel.values, strict=True)]
    if isinstance(panel, Images):
        grid = panel.weights.shape[1:]
        best = [np.unravel_index(int(entry.argmax()), grid) for entry in panel.weights] if panel.weights.size else []
        rows = [
            [word, f"row {row + 1}, column {column + 1}", f"{entry[row, column]:.3f}"]
            for word, entry, (row, column) in zip(panel.words, panel.weights, best, strict=True)
        ]
        return ["word", f"region of {grid[0]} x {grid[1]} it looks at most", "weight"], rows
    if isinstance(panel, Strips):
        rows = [
            [str(at + 1), *(number(v) for v in frame), f"{w:.3f}"]
            for at, (frame, w) in enumerate(zip(panel.values.tolist(), panel.weights.tolist(), strict=True))
        ]
        return [panel.x_label, *panel.names, "weight"], rows
    if isinstance(panel, Tree):
        return ["prefix", panel.value_label, ""], [
            [path, f"{node.value:.3f}", node.note] for path, node in panel.paths()
        ]
    if isinstance(panel, Raster) and panel.rows:
        return _peaks(panel)
    return [], []


def _peaks(panel: Raster) -> tuple[list[str], list[list[str]]]:
    """The largest value of every named row and where it is."""
    left, right = panel.x_limits
    width = (right - left) / panel.values.shape[1]
    rows = [
        [name, f"{row.max():.3f}", f"{left + (int(row.argmax()) + 0.5) * width:.2f}"]
        for name, row in zip(panel.rows, panel.values, strict=True)
    ]
    return [panel.y_label, "largest", f"at, {panel.x_label}"], rows


def number(value: float) -> str:
    """Four figures; nothing for what is not finite.

    >>> number(1234.5), number(0.00012), number(float("nan"))
    ('1,234', '0.00012', '')
    """
    if not math.isfinite(value):
        return ""
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


def log_tick(value: float) -> str:
    """0.01 and 1000 as they are, the others as powers.

    >>> log_tick(0.01), log_tick(1000.0), log_tick(1e-16)
    ('0.01', '1,000', '10⁻¹⁶')
    """
    power = math.log10(value) if value > 0 else 0.0
    if -3.5 < power < 3.5 or abs(power - round(power)) > 1e-6:
        return f"{value:,.6g}" if power > -3.5 else f"{value:.0e}"
    return "10" + str(round(power)).translate(SUPERSCRIPTS)


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most `most` round numbers within a range.

    >>> round_ticks(0.0, 7.3, 5), round_ticks(112.0, 622.0, 4)
    ([0.0, 2.0, 4.0, 6.0], [200.0, 400.0, 600.0])
    """
    rough = max((high - low) / max(most, 1), 1e-300)
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= rough * 0.999)
    return [index * step for index in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def left_to_right(words: str) -> str:
    """Words that keep their place in a line from left to right: those of Arabic or Hebrew between two marks.

    >>> left_to_right("chat"), left_to_right("שלום")
    ('chat', '\\u200eשלום\\u200e')
    """
    is_reversed = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in words)
    return f"\u200e{words}\u200e" if is_reversed else words
