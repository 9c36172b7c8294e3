"""A table of shades as a PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.map_svg import LONGEST, ROOMY
from harken.inspection.palette import LIGHT, css
from harken.inspection.png import INK, LETTER, SLANTED, WORDS, bare, encode, sheet, write_weight
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.shades import ShadeTable


def draw_png(picture: ShadeTable) -> bytes:
    """The bytes of a PNG file."""
    rows, count = picture.weights.shape
    roomy = count <= ROOMY
    cell, size = (0.5, 11) if roomy else (0.22, 9)
    across = [cut(word, LONGEST) for word in picture.columns]
    down = [cut(word, LONGEST) for word in picture.rows]
    left = 0.35 + max((columns(word) for word in down), default=0) * LETTER * size
    slanted = LETTER * size * 0.71  # how far a letter of a heading reaches up and to the right
    inside = max(count, 1) * cell, max(rows, 1) * cell
    overhang = max((index * cell + columns(word) * slanted for index, word in enumerate(across)), default=0.0)
    top = 0.75 + max((columns(word) for word in across), default=0) * slanted
    figure = sheet(left + max(inside[0], overhang + cell) + 0.25, top + inside[1] + 0.25, picture.heading)
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, 0.25 / height, inside[0] / width, inside[1] / height))
    axes.set(xlim=(0, max(count, 1)), ylim=(max(rows, 1), 0))
    if picture.weights.size:
        axes.pcolormesh(picture.weights, cmap=INK, vmin=0, vmax=1, edgecolors=css(LIGHT.paper), linewidth=0.8)
    axes.xaxis.tick_top()
    axes.set_xticks([index + 0.5 for index in range(count)], across, fontsize=size, **SLANTED, **WORDS)
    axes.set_yticks([index + 0.5 for index in range(rows)], down, fontsize=size, **WORDS)
    axes.tick_params(pad=4)
    bare(axes)
    if roomy:
        for row, weights in enumerate(picture.weights):
            for column, weight in enumerate(weights):
                write_weight(axes, column, row, float(weight))
    return encode(figure, picture.heading)
