"""The attention of hops as a PNG, drawn by matplotlib without a screen and without its global state."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harken.inspection.figure import FONT, LARGEST, LETTER
from harken.inspection.hop_svg import LONGEST
from harken.inspection.palette import DEEP, LIGHT, css
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.hop_map import HopMap

WIDE, TALL, SIZE = 0.6, 0.28, 10  # inches of a cell, and the size of letters


def draw_png(picture: HopMap) -> bytes:
    """The bytes of a PNG file."""
    facts = [f"{'● ' if picture.marked(row) else ''}{cut(fact, LONGEST)}" for row, fact in enumerate(picture.facts)]
    left = 0.4 + max((columns(fact) for fact in facts), default=0) * LETTER * SIZE
    across, down = WIDE * max(len(picture.names), 1), TALL * max(len(facts), 1)
    width = max(left + across + 0.25, 0.5 + columns(picture.heading) * LETTER * 13)
    height = 0.95 + down + 0.2
    figure = Figure(figsize=(width, height), dpi=min(150, LARGEST / max(width, height)), facecolor=css(LIGHT.paper))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((left / width, 0.2 / height, across / width, down / height))
    colours = LinearSegmentedColormap.from_list("harken", [css(LIGHT.empty), css(LIGHT.ink)])
    axes.set(xlim=(0, max(len(picture.names), 1)), ylim=(max(len(facts), 1), 0))
    if picture.hops.size:
        axes.pcolormesh(picture.hops.T, cmap=colours, vmin=0, vmax=1, edgecolors=css(LIGHT.paper), linewidth=0.8)
    plain: dict[str, Any] = {"family": FONT, "color": css(LIGHT.text), "parse_math": False}
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(picture.names))], picture.names, fontsize=9, **plain)
    axes.set_yticks([place + 0.5 for place in range(len(facts))], facts, fontsize=SIZE, **plain)
    axes.tick_params(length=0, pad=4)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for hop, weights in enumerate(picture.hops):
        for fact, weight in enumerate(weights):
            if weight >= 0.005:
                colour = css(LIGHT.paper if weight >= DEEP else LIGHT.text)
                middle: dict[str, Any] = {"ha": "center", "va": "center", "family": FONT, "fontsize": 8}
                axes.text(hop + 0.5, fact + 0.5, f"{weight:.2f}", color=colour, **middle)
    figure.text(0.2 / width, 1 - 0.18 / height, picture.heading, va="top", fontsize=13, fontweight="bold", **plain)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        canvas.print_png(file)
    return file.getvalue()
