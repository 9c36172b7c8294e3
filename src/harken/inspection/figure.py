"""The alignment map as a PNG, drawn by matplotlib without a screen and without its global state."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harken.inspection.palette import DEEP, FAINT, LIGHT, css
from harken.inspection.svg import LONGEST, ROOMY
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.alignment import AlignmentMap

FONT = "DejaVu Sans"  # ships with matplotlib and has the accents of European languages, Greek and Cyrillic
LARGEST = 6000  # dots along a side
LETTER = 0.62 / 72  # inches for a letter at one point


def draw_png(picture: AlignmentMap) -> bytes:
    """The bytes of a PNG file."""
    target, source = picture.weights.shape
    roomy = source <= ROOMY
    cell, size = (0.5, 11) if roomy else (0.22, 9)
    across = [cut(word, LONGEST) for word in picture.source_words]
    down = [cut(word, LONGEST) for word in picture.target_words]
    left = 0.35 + max((columns(word) for word in down), default=0) * LETTER * size
    rise = max((columns(word) for word in across), default=0) * LETTER * size * 0.71
    inside = max(source, 1) * cell, max(target, 1) * cell
    last = columns(across[-1]) * LETTER * size * 0.71 if across else 0.0
    width = max(left + inside[0] + max(last, 0.25), 0.5 + columns(picture.heading) * LETTER * 14)
    top = 0.75 + rise
    height = top + inside[1] + 0.25
    figure = Figure(figsize=(width, height), dpi=min(150, LARGEST / max(width, height)), facecolor=css(LIGHT.paper))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((left / width, 0.25 / height, inside[0] / width, inside[1] / height))
    colours = LinearSegmentedColormap.from_list("harken", [css(LIGHT.empty), css(LIGHT.ink)])
    axes.set(xlim=(0, max(source, 1)), ylim=(max(target, 1), 0))
    if picture.weights.size:
        axes.pcolormesh(picture.weights, cmap=colours, vmin=0, vmax=1, edgecolors=css(LIGHT.paper), linewidth=0.8)
    text: dict[str, Any] = {"family": FONT, "fontsize": size, "color": css(LIGHT.text), "parse_math": False}
    axes.xaxis.tick_top()
    slanted: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks([index + 0.5 for index in range(source)], across, **slanted, **text)
    axes.set_yticks([index + 0.5 for index in range(target)], down, **text)
    axes.tick_params(length=0, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)
    if roomy:
        for (row, column), weight in _cells(picture):
            colour = css(LIGHT.paper if weight >= DEEP else LIGHT.text if weight >= FAINT else LIGHT.faint)
            place: dict[str, Any] = {"ha": "center", "va": "center"}
            axes.text(column + 0.5, row + 0.5, f"{weight:.2f}", family=FONT, fontsize=8, color=colour, **place)
    title: dict[str, Any] = {
        "family": FONT,
        "fontsize": 14,
        "fontweight": "bold",
        "color": css(LIGHT.text),
        "parse_math": False,
    }
    figure.text(0.2 / width, 1 - 0.2 / height, picture.heading, va="top", **title)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        canvas.print_png(file)
    return file.getvalue()


def _cells(picture: AlignmentMap) -> list[tuple[tuple[int, int], float]]:
    """The cells whose number can be told from zero."""
    rows = enumerate(picture.weights)
    return [((row, column), float(w)) for row, weights in rows for column, w in enumerate(weights) if w >= 0.005]
