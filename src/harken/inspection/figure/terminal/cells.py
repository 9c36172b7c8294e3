"""Cells and colours in a terminal: how a value is written in a cell, and the colours of series.

>>> [cell(strength, 5, False, number)[0] for strength, number in ((0.0, ""), (0.3, ".30"), (1.0, "1.0"))]
['·    ', '▒ .30', '█ 1.0']
"""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color
from rich.style import Style

from harken.inspection.figure.palette import DARK, DEEP, FAINT, LIGHT, mix
from harken.inspection.figure.text import fill

ABOVE, BELOW = "·░▒▓█", "·-=≡#"  # shades of values above and below 0
TALLEST = 12  # letters of a word that is written downwards; lines of a chart and of a drawing
WIDEST = 100  # columns of a chart; wider is no easier to read


def cell(strength: float, width: int, color: bool, number: str = "") -> tuple[str, Style | str]:
    """A number on a shade of colour, or next to one of ░▒▓█."""
    if color:
        return fill(number if width >= 3 else "", width, "^"), cell_style(round(strength, 2))
    sign = (ABOVE if strength >= 0 else BELOW)[0 if abs(strength) < FAINT else min(1 + int(abs(strength) * 4), 4)]
    if width < 4 or not number:
        return fill(sign if width >= 4 or abs(strength) < FAINT else sign * min(width, 3), width), ""
    return fill(f"{sign} {number}", width), ""


@lru_cache(maxsize=256)
def cell_style(strength: float) -> Style:
    """Cells carry their own background, so that they look the same on light and on dark terminals."""
    text = DARK.paper if abs(strength) >= DEEP else DARK.text if abs(strength) >= FAINT else DARK.faint
    return Style(color=Color.from_rgb(*text), bgcolor=Color.from_rgb(*DARK.shade(strength)))


def series_style(number: int) -> Style:
    """A colour between those for light and for dark, to be seen on both."""
    at = number % len(LIGHT.series)
    return Style(color=Color.from_rgb(*mix(LIGHT.series[at], DARK.series[at], 0.5)))
