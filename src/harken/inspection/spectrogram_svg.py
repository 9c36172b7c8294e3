"""The spectrogram and its symbols as a drawing.

Shades are rounded to twelfths, and neighbours of one shade are one rectangle, so that the drawing stays small.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING

from harken.inspection.page import text
from harken.inspection.svg import svg
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.spectrogram import Row, SpectrogramPicture

BANDS, COLUMNS, LEVELS = 28, 152, 12
WIDE, TALL = 760, 196  # pixels of the spectrogram: whole ones for a cell, so that no seams are seen
HIGH, GAP = 30, 5  # pixels of a symbol's row, and between two
TOP = 84
LONGEST = 12  # columns of a name


def draw_svg(picture: SpectrogramPicture, titled: bool = True) -> str:
    """A complete SVG document; without its title where a page has one."""
    left = 36 + max(columns(cut(row.name, LONGEST)) for row in picture.rows) * 8.7
    width = left + WIDE + 24
    height = TOP + TALL + 30 + len(picture.rows) * (HIGH + GAP) + 16
    parts = [f'<g transform="translate({left:.1f} 0)">', _sound(picture), *_times(picture)]
    for number, row in enumerate(picture.rows):
        parts += _row(picture, row, TOP + TALL + 30 + number * (HIGH + GAP))
    parts += _said(picture)
    looks = {".name": "font-size:14px;font-weight:600"}
    title, top = (picture.title, 0) if titled else ("", TOP - 30)
    return svg("sound", title, width, height, [*parts, "</g>"], looks, label=picture.title, top=top)


def _sound(picture: SpectrogramPicture) -> str:
    shades = picture.sampled(BANDS, COLUMNS)[::-1]
    step, tall = WIDE / COLUMNS, TALL / len(shades)
    paths: dict[int, str] = defaultdict(str)
    for band, values in enumerate(shades):
        column = 0
        for level, run in groupby(round(float(value) * LEVELS) for value in values):
            count = len(list(run))
            if level:
                wide = count * step
                paths[level] += f"M{column * step:.5g} {TOP + band * tall:.5g}h{wide:.5g}v{tall:.3g}h-{wide:.5g}z"
            column += count
    drawn = "".join(
        f'<path class="ink" fill-opacity="{level / LEVELS:.2f}" d="{path}"/>' for level, path in sorted(paths.items())
    )
    ground = f'<rect class="empty" y="{TOP}" width="{WIDE}" height="{TALL}"/>'
    return f'<g shape-rendering="crispEdges">{ground}{drawn}</g>'


def _times(picture: SpectrogramPicture) -> list[str]:
    places = [(tick, WIDE * tick / picture.seconds) for tick in picture.ticks()]
    return [
        f'<text class="muted middle" x="{x:.1f}" y="{TOP + TALL + 18}">{tick:g} s</text>'
        for tick, x in places
        if x < WIDE
    ]


def _row(picture: SpectrogramPicture, row: Row, y: float) -> list[str]:
    """The chances as an area over its line of 0."""
    step = WIDE * picture.step_seconds / picture.seconds
    base = y + HIGH
    path = f"M0 {base:.1f}"
    for number, chance in enumerate(row.chances):
        path += f"L{(number + 0.5) * step:.1f} {base - HIGH * float(chance):.1f}"
    path += f"L{min(WIDE, len(row.chances) * step):.1f} {base:.1f}z"
    name = text(cut(row.name, LONGEST))
    kind = "ink" if row is not picture.rows[-1] else "faint"
    return [
        f'<rect class="empty" y="{y:.1f}" width="{WIDE}" height="{HIGH}"/>',
        f'<text class="name end" x="-10" y="{y + HIGH / 2 + 5:.1f}">{name}</text>',
        f'<path class="{kind}" d="{path}"/>',
    ]


def _said(picture: SpectrogramPicture) -> list[str]:
    """The text above the sound, each symbol over the middle of its time."""
    from harken.inspection.spectrogram import visible

    parts = []
    for one in picture.said:
        x = WIDE * (one.start + one.end) / 2 / picture.seconds
        hint = f"{visible(one.name)}: {one.start:.2f} to {one.end:.2f} s, confidence {one.confidence:.3f}"
        name = text(cut(visible(one.name), LONGEST))
        parts.append(f'<text class="name middle" x="{x:.1f}" y="{TOP - 8}">{name}<title>{text(hint)}</title></text>')
    return parts
