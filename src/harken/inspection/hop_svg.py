"""The attention of hops as a drawing, written line by line: no library, no script, no font but the reader's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.html import text
from harken.inspection.palette import DARK, DEEP, FAINT, LIGHT, Palette, css
from harken.inspection.words import columns, cut

if TYPE_CHECKING:
    from harken.inspection.hop_map import HopMap

WIDE, TALL, SIZE = 56, 26, 14  # a cell, and the size of letters
LETTER = 0.56  # the width of a letter as a share of the font's size
LONGEST = 60  # columns of a fact


def draw_svg(picture: HopMap) -> str:
    """A complete SVG document."""
    facts = [cut(fact, LONGEST) for fact in picture.facts]
    left = 44 + max((columns(fact) for fact in facts), default=0) * SIZE * LETTER + 12
    width = max(left + WIDE * len(picture.names) + 24, 48 + columns(picture.heading) * 10)
    height = 88 + TALL * len(facts) + 36
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{text(picture.heading)}" class="harken-hops">',
        f"<style>{_style()}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="24" y="36">{text(picture.question)} <tspan class="answer">{text(picture.answer)}'
        "</tspan></text>",
    ]
    for column, name in enumerate(picture.names):
        parts.append(f'<text class="key" x="{left + (column + 0.5) * WIDE:.1f}" y="74">{text(name)}</text>')
    for row, fact in enumerate(facts):
        y = 82 + row * TALL
        if picture.marked(row):
            parts.append(f'<circle class="needed" cx="30" cy="{y + TALL / 2:.1f}" r="4"/>')
        parts.append(f'<text class="fact" x="44" y="{y + TALL / 2:.1f}">{text(fact)}</text>')
        for column, weight in enumerate(picture.hops[:, row]):
            hint = f"hop {column + 1}, {picture.facts[row]} {weight:.3f}"
            parts.append(_cell(left + column * WIDE, y, float(weight), hint))
    if picture.needed is not None:
        y = 82 + TALL * len(facts) + 20
        parts.append(f'<circle class="needed" cx="30" cy="{y - 4:.1f}" r="4"/>')
        parts.append(f'<text class="legend" x="44" y="{y:.1f}">a fact that the answer needs</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cell(x: float, y: float, weight: float, hint: str) -> str:
    side = f'x="{x:.1f}" y="{y:.1f}" width="{WIDE - 1}" height="{TALL - 1}"'
    drawn = f'<g><title>{text(hint)}</title><rect class="empty" {side}/>'
    if weight >= 0.001:
        drawn += f'<rect class="ink" {side} fill-opacity="{weight:.3f}"/>'
    if weight >= 0.005:
        kind = "number deep" if weight >= DEEP else "number" if weight >= FAINT else "number faint"
        drawn += f'<text class="{kind}" x="{x + WIDE / 2:.1f}" y="{y + TALL / 2:.1f}">{weight:.2f}</text>'
    return drawn + "</g>"


def _style() -> str:
    return (
        ".harken-hops{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
        f".harken-hops .title{{font-size:18px;font-weight:600}}.harken-hops .fact{{font-size:{SIZE}px;"
        "dominant-baseline:central}.harken-hops .number{font-size:11px;text-anchor:middle;dominant-baseline:central}"
        ".harken-hops .key{font-size:12px;text-anchor:middle}.harken-hops .legend{font-size:12px}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    return "".join(
        f".harken-hops {names}{{fill:{css(colour)}}}"
        for names, colour in [
            (".paper", palette.paper),
            (".ink", palette.ink),
            (".empty", palette.empty),
            ("text", palette.text),
            (".answer", palette.ink),
            (".key", palette.muted),
            (".legend", palette.muted),
            (".needed", palette.warm),
            (".faint", palette.faint),
            (".deep", palette.paper),
        ]
    )
