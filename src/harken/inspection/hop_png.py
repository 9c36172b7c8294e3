"""The attention of hops as a PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.hop_svg import LONGEST
from harken.inspection.palette import LIGHT, css
from harken.inspection.png import INK, LETTER, WORDS, bare, encode, sheet, write_weight
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.hop_map import HopMap

WIDE, TALL, SIZE = 0.6, 0.28, 10  # inches of a cell, and the size of letters


def draw_png(picture: HopMap) -> bytes:
    """The bytes of a PNG file."""
    facts = [f"{'● ' if picture.marked(row) else ''}{cut(fact, LONGEST)}" for row, fact in enumerate(picture.facts)]
    left = 0.4 + max((columns(fact) for fact in facts), default=0) * LETTER * SIZE
    across, down = WIDE * max(len(picture.names), 1), TALL * max(len(facts), 1)
    figure = sheet(left + across + 0.25, 0.95 + down + 0.2, picture.heading)
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, 0.2 / height, across / width, down / height))
    axes.set(xlim=(0, max(len(picture.names), 1)), ylim=(max(len(facts), 1), 0))
    if picture.hops.size:
        axes.pcolormesh(picture.hops.T, cmap=INK, vmin=0, vmax=1, edgecolors=css(LIGHT.paper), linewidth=0.8)
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(picture.names))], picture.names, fontsize=9, **WORDS)
    axes.set_yticks([place + 0.5 for place in range(len(facts))], facts, fontsize=SIZE, **WORDS)
    axes.tick_params(pad=4)
    bare(axes)
    for hop, weights in enumerate(picture.hops):
        for fact, weight in enumerate(weights):
            write_weight(axes, hop, fact, float(weight))
    return encode(figure, picture.heading)
