"""Gates over time as a drawing: layers across, gates down, words above.

Shades are rounded to sixteenths, so that all cells of one shade are one path: a page of them stays small.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from harken.inspection.gate_picture import Field, Sheet
from harken.inspection.page import text
from harken.inspection.svg import svg
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.gate_picture import GatePicture

UNITS = 32  # rows of a field
TALL = 3.5  # pixels of a row
LEVELS = 16  # shades of an ink
LONGEST = 18  # columns of a word
NARROWEST = 274  # pixels of a field, so that its notes fit above it
LOOKS = {
    ".name": "font-size:14px;font-weight:600",
    ".gate": "font-weight:600",
    ".muted": "font-size:11px;font-weight:400",
}
KEY = f"{UNITS} units whose state changes most, sorted by how much they keep"
SLANTED = 0.62 * 0.7072 * 12  # pixels a letter of a slanted word takes, both ways


def draw_svg(picture: GatePicture) -> str:
    """A complete SVG document."""
    rise = max((columns(cut(word, LONGEST)) for sheet in picture.sheets for word in sheet.words), default=0) * SLANTED
    top = 96 + rise
    widths = [_width(sheet) for sheet in picture.sheets]
    overhang = columns(cut(picture.sheets[-1].words[-1], LONGEST)) * SLANTED
    width = max(24 + sum(widths) + 36 * len(widths) + overhang * 0.6, 48 + 6.6 * len(KEY))
    deepest = max(len(sheet.fields) for sheet in picture.sheets)
    height = top + deepest * (UNITS * TALL + 34) + 48
    parts = []
    left = 24.0
    for sheet, wide in zip(picture.sheets, widths, strict=True):
        parts += _sheet(sheet, left, top, wide)
        left += wide + 36
    parts.append(_key(24, height - 42))
    return svg("gates", picture.title, width, height, parts, LOOKS, label=f"Gates over time: {picture.title}")


def _width(sheet: Sheet) -> float:
    """Room for the words, slanted, and for the line above them."""
    steps = len(sheet.words)
    name = 9.4 * columns(sheet.name) + 6.8 * columns(_about(sheet)) + 8
    return max(NARROWEST, 22 * min(steps, 30), 17 * steps, name)


def _about(sheet: Sheet) -> str:
    return f"{sheet.cell}, {len(sheet.fields[0].values)} units"


def _sheet(sheet: Sheet, left: float, top: float, wide: float) -> list[str]:
    step = wide / max(len(sheet.words), 1)
    about = f'<tspan class="muted" dx="8">{text(_about(sheet))}</tspan>'
    parts = [f'<text class="name" x="{left:.1f}" y="64">{text(sheet.name)}{about}</text>']
    for index, word in enumerate(sheet.words):
        x = left + (index + 0.5) * step
        parts.append(
            f'<text transform="translate({x:.1f} {top - 8:.1f}) rotate(-45)">{text(cut(word, LONGEST))}'
            f"<title>{text(word)}</title></text>"
        )
    for row, field in enumerate(sheet.fields):
        y = top + row * (UNITS * TALL + 34)
        notes = f'<tspan class="muted" dx="8">{text(" · ".join(field.notes))}</tspan>'
        below = y + UNITS * TALL + 15
        parts.append(_cells(field, left, y, step, wide))
        parts.append(f'<text class="gate" x="{left:.1f}" y="{below:.1f}">{text(field.name)}{notes}</text>')
    return parts


def _cells(field: Field, left: float, top: float, step: float, wide: float) -> str:
    rows = field.pick(UNITS)
    tall = UNITS * TALL / len(rows)
    paths: dict[int, str] = defaultdict(str)
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            level = round(float(value) * LEVELS)
            if level:
                across = f"h{step - (1 if step > 8 else 0):.1f}v{tall:.2f}h-{step - (1 if step > 8 else 0):.1f}z"
                paths[level] += f"M{left + column * step:.1f} {top + row * tall:.2f}{across}"
    drawn = "".join(
        f'<path class="{"ink" if level > 0 else "warm"}" fill-opacity="{abs(level) / LEVELS:g}" d="{path}"/>'
        for level, path in sorted(paths.items())
    )
    ground = f'<rect class="empty" x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{UNITS * TALL:.1f}"/>'
    return f'<g shape-rendering="crispEdges">{ground}{drawn}</g>'


def _key(x: float, y: float) -> str:
    shades = "".join(
        f'<rect class="{"ink" if step > 0 else "warm"}" x="{x + 22 + (step + 4) * 14}" y="{y}" width="14" height="10" '
        f'fill-opacity="{abs(step) / 4}"/>'
        for step in range(-4, 5)
    )
    return (
        f'<g><text class="muted" x="{x}" y="{y + 9}">−1</text><rect class="empty" x="{x + 22}" y="{y}" width="126" '
        f'height="10"/>{shades}<text class="muted" x="{x + 154}" y="{y + 9}">1</text>'
        f'<text class="muted" x="{x}" y="{y + 27}">{KEY}</text></g>'
    )
