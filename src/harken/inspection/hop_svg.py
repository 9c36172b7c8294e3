"""The attention of hops as a drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import text
from harken.inspection.svg import LETTER, shaded_cell, svg
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.hop_map import HopMap

WIDE, TALL, SIZE = 56, 26, 14  # a cell, and the size of letters
LONGEST = 60  # columns of a fact


def draw_svg(picture: HopMap) -> str:
    """A complete SVG document."""
    facts = [cut(fact, LONGEST) for fact in picture.facts]
    left = 44 + max((columns(fact) for fact in facts), default=0) * SIZE * LETTER + 12
    width, height = left + WIDE * max(len(picture.names), 1) + 24, 88 + TALL * len(facts) + 36
    parts = [f'<text class="answer ink" x="24" y="60">{text(cut(picture.answer, LONGEST))}</text>']
    for column, name in enumerate(picture.names):
        parts.append(f'<text class="muted middle" x="{left + (column + 0.5) * WIDE:.1f}" y="74">{text(name)}</text>')
    for row, fact in enumerate(facts):
        y = 82 + row * TALL
        if picture.marked(row):
            parts.append(f'<circle class="warm" cx="30" cy="{y + TALL / 2:.1f}" r="4"/>')
        parts.append(f'<text class="fact" x="44" y="{y + TALL / 2:.1f}">{text(fact)}</text>')
        for column, weight in enumerate(picture.hops[:, row]):
            hint = f"hop {column + 1}, {picture.facts[row]} {weight:.3f}"
            parts.append(shaded_cell(left + column * WIDE, y, WIDE, TALL, float(weight), hint))
    if picture.needed is not None:
        y = 82 + TALL * len(facts) + 20
        parts.append(f'<circle class="warm" cx="30" cy="{y - 4:.1f}" r="4"/>')
        parts.append(f'<text class="muted" x="44" y="{y:.1f}">a fact that the answer needs</text>')
    looks = {".fact": f"font-size:{SIZE}px;dominant-baseline:central", ".answer": "font-size:16px;font-weight:600"}
    return svg("hops", picture.question, width, height, parts, looks, label=picture.heading)
