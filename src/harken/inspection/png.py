"""What all pictures of dots share: a sheet in inches, the font, the shades, a title of as many lines as it needs.

Drawn by matplotlib without a screen and without its global state.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from harken.inspection.palette import DEEP, FAINT, LIGHT, css
from harken.inspection.words import breadth, wrap

FONT = "DejaVu Sans"  # ships with matplotlib and has the accents of European languages, Greek and Cyrillic
LARGEST = 6000  # dots along a side
LETTER = 0.62 / 72  # inches for a letter at one point
TITLE, LINE = 14, 0.26  # points of a title, inches from one of its lines to the next
BROAD = 6.4  # inches that a title may ask for; it goes on in a next line then

WORDS: dict[str, Any] = {"family": FONT, "parse_math": False, "color": css(LIGHT.text)}
MUTED: dict[str, Any] = WORDS | {"color": css(LIGHT.muted)}
SLANTED: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
INK = LinearSegmentedColormap.from_list("harken", [css(LIGHT.empty), css(LIGHT.ink)])
BOTH_INKS = LinearSegmentedColormap.from_list("harken both", [css(LIGHT.warm), css(LIGHT.empty), css(LIGHT.ink)])


def sheet(width: float, height: float, title: str = "") -> Figure:
    """Paper of so many inches, wide enough for a title up to `BROAD`."""
    width = max(width, min(BROAD, 0.5 + breadth(title) * TITLE / 72))
    return Figure(figsize=(width, height), dpi=min(150, LARGEST / max(width, height)), facecolor=css(LIGHT.paper))


def encode(figure: Figure, title: str = "") -> bytes:
    """The bytes of a PNG file; a long title's first lines lie above the sheet, which grows for them."""
    width, height = figure.get_size_inches()
    lines = wrap(title, (width - 0.5) * 72 / TITLE, breadth) if title else []
    for number, line in enumerate(reversed(lines)):
        place = 0.25 / width, 1 - (0.4 - LINE * number) / height
        figure.text(*place, line, fontsize=TITLE, fontweight="bold", **WORDS)
    above = LINE * max(len(lines) - 1, 0)
    file = io.BytesIO()
    FigureCanvasAgg(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        figure.savefig(file, format="png", dpi=figure.dpi, bbox_inches=Bbox([[0, 0], [width, height + above]]))
    return file.getvalue()


def bare(axes: Axes) -> None:
    """No frame and no ticks."""
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def write_weight(axes: Axes, column: int, row: int, weight: float) -> None:
    """The number of a cell, where it can be told from zero, in a colour that is seen on its shade."""
    if weight >= 0.005:
        colour = css(LIGHT.paper if weight >= DEEP else LIGHT.text if weight >= FAINT else LIGHT.faint)
        place: dict[str, Any] = {"ha": "center", "va": "center", "family": FONT, "fontsize": 8}
        axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", color=colour, **place)
