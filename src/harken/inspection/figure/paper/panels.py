"""How matplotlib draws each kind of panel: axes of a size in inches, and a hint for every value."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.font_manager import FontProperties

from harken.inspection.figure.palette import LIGHT, css
from harken.inspection.figure.spec import (
    Bars,
    Heat,
    Images,
    Lines,
    Panel,
)
from harken.inspection.figure.text import printable

POINT = 1 / 72  # of an inch
Size = tuple[float, float]  # inches
Hint = tuple[Axes, float, float, float, float, str]  # an area in the data's coordinates, and what is said of it

TEXT, MUTED, LINE, EMPTY, PAPER = (css(one) for one in (LIGHT.text, LIGHT.muted, LIGHT.line, LIGHT.empty, LIGHT.paper))
INK, WARM = css(LIGHT.ink), css(LIGHT.warm)
SERIES = [css(one) for one in LIGHT.series]
MOST_HINTS = 4000
STYLE: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same everywhere
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


def draw_panel(canvas: Canvas, axes: Axes, panel: Panel, renderer: RendererAgg, count: int) -> tuple[Size, list[Hint]]:
    """Draw a panel, one of `count` in its figure; the size its axes should have, and its hints."""
    if panel.title and not isinstance(panel, Heat | Images):
        axes.set_title(printable(panel.title), loc="left", fontsize=10.5, color=TEXT, pad=8)
    size, hints = draw(panel, axes, _measure(renderer), count)
    return size, hints[:MOST_HINTS]


Measure = Callable[[str, float], float]  # the width in inches of a text of so many points


def _measure(renderer: RendererAgg) -> Measure:
    def width(text: str, points: float) -> float:
        font = FontProperties(size=points)
        return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) * POINT if text else 0.0

    return width


@singledispatch
def draw(panel: Any, axes: Axes, measure: Measure, count: int) -> tuple[Size, list[Hint]]:
    """One function for each kind of panel."""
    raise NotImplementedError(type(panel).__name__)


def legend_of(panel: Panel) -> list[str]:
    """The entries of a panel's legend."""
    if isinstance(panel, Lines):
        names = [*(label_of(one.label, one.note) for one in panel.series), *(band.label for band in panel.bands)]
    elif isinstance(panel, Bars):
        names = [group.label for group in panel.groups]
    else:
        return []
    return [name for name in [*names, *(mark.label for mark in panel.marks if mark.axis == "y")] if name]


def label_of(label: str, note: str) -> str:
    """An entry of a legend."""
    return printable(f"{label}: {note}" if label and note else label or note)
