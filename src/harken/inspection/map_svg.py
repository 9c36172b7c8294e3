"""A table of shades as a drawing; pointing at a cell shows its names and weight, by the `<title>` browsers know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import text
from harken.inspection.svg import LETTER, shaded_cell, svg
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.shades import ShadeTable

ROOMY = 14  # up to this many columns the number stands in the cell
LONGEST = 24  # columns of a label
SLANT = 0.7072  # headings rise at 45 degrees


def draw_svg(picture: ShadeTable) -> str:
    """A complete SVG document."""
    roomy = len(picture.columns) <= ROOMY
    cell, size = (44, 14) if roomy else (20, 12)
    across = [cut(word, LONGEST) for word in picture.columns]
    down = [cut(word, LONGEST) for word in picture.rows]
    left = 24 + max((columns(word) for word in down), default=0) * size * LETTER + 10
    slanted = LETTER * SLANT * size  # how far a letter of a heading reaches up and to the right
    top = 58 + max((columns(word) for word in across), default=0) * slanted + 14
    overhang = max(((index + 0.5) * cell + columns(word) * slanted for index, word in enumerate(across)), default=0)
    width = 24 + max(left + len(across) * cell, left + overhang + 8, left + 170)
    height = top + len(down) * cell + 58
    parts = []
    for index, word in enumerate(across):
        x, y = left + (index + 0.5) * cell, top - 8
        parts.append(
            f'<text class="word" transform="translate({x:.1f} {y:.1f}) rotate(-45)">{text(word)}'
            f"<title>{text(picture.columns[index])}</title></text>"
        )
    for row, word in enumerate(down):
        y = top + (row + 0.5) * cell
        parts.append(
            f'<text class="word row" x="{left - 10:.1f}" y="{y:.1f}">{text(word)}'
            f"<title>{text(picture.rows[row])}</title></text>"
        )
        for column, weight in enumerate(picture.weights[row]):
            hint = f"{picture.rows[row]} ← {picture.columns[column]}: {weight:.3f}"
            parts.append(
                shaded_cell(left + column * cell, top + row * cell, cell, cell, float(weight), hint, number=roomy)
            )
    parts.append(_scale(left, top + len(down) * cell + 22))
    looks = {
        ".word": f"font-size:{size}px",
        ".row": "text-anchor:end;dominant-baseline:central",
        ".key": "font-size:11px",
    }
    kind = "roomy-map" if roomy else "dense-map"  # so that both can stand on one page
    return svg(kind, picture.heading, width, height, parts, looks, label=f"{picture.heading}: {picture.size}")


def _scale(x: float, y: float) -> str:
    """The key: five cells from nothing to all."""
    sides = [f'x="{x + 14 + index * 22:.1f}" y="{y:.1f}" width="21" height="10"' for index in range(5)]
    steps = "".join(
        f'<rect class="empty" {side}/><rect class="ink" {side} fill-opacity="{index / 4}"/>'
        for index, side in enumerate(sides)
    )
    return (
        f'<g><text class="key muted" x="{x:.1f}" y="{y + 9:.1f}">0</text>{steps}'
        f'<text class="key muted" x="{x + 130:.1f}" y="{y + 9:.1f}">1</text></g>'
    )
