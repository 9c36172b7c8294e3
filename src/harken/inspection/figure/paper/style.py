"""The style of all panels on paper: colours, matplotlib's settings, and the types of a size and of a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes

from harken.inspection.figure.palette import LIGHT, css
from harken.inspection.figure.text import printable

POINT = 1 / 72  # of an inch
Size = tuple[float, float]  # inches
Hint = tuple[Axes, float, float, float, float, str]  # an area in the data's coordinates, and its text
Drawn = tuple[Size, list[Hint]]  # the size that the axes should have, and the hints of its values
Measure = Callable[[str, float], float]  # the width in inches of a text of so many points

TEXT, MUTED, LINE, EMPTY, PAPER = (
    css(colour) for colour in (LIGHT.text, LIGHT.muted, LIGHT.line, LIGHT.empty, LIGHT.paper)
)
INK, WARM = css(LIGHT.ink), css(LIGHT.warm)
SERIES = [css(colour) for colour in LIGHT.series]
FONT = "DejaVu Sans"  # ships with matplotlib: the same everywhere
STYLE: Any = {
    "font.size": 9.5,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": MUTED,
    "axes.labelsize": 9.5,
    "axes.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "harken",  # the same figure gives the same file
    "path.simplify": False,
}


def label_of(label: str, note: str) -> str:
    """An entry of a legend."""
    return printable(f"{label}: {note}" if label and note else label or note)
