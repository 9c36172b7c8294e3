"""The alignment map as a drawing, written line by line: no library, no script, no font but the reader's.

Shade is the opacity of one ink over the paper, so the same drawing serves light and dark; pointing at a cell shows its
words and weight by the `<title>` every browser knows.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from harken.inspection.palette import DARK, DEEP, FAINT, LIGHT, Palette, css
from harken.inspection.words import columns, cut, printable

if TYPE_CHECKING:
    from harken.inspection.alignment import AlignmentMap

ROOMY = 14  # up to this many source words the number stands in the cell
LONGEST = 24  # columns of a label
LETTER = 0.62  # the width of a letter as a share of the font's size, on the safe side
SLANT = 0.7072  # headings rise at 45 degrees


def draw_svg(picture: AlignmentMap) -> str:
    """A complete SVG document."""
    roomy = len(picture.source_words) <= ROOMY
    cell, size = (44, 14) if roomy else (20, 12)
    source = [cut(word, LONGEST) for word in picture.source_words]
    target = [cut(word, LONGEST) for word in picture.target_words]
    left = 24 + max((columns(word) for word in target), default=0) * size * LETTER + 10
    rise = max((columns(word) for word in source), default=0) * LETTER * SLANT * size
    top = 58 + rise + 14
    slanted = LETTER * SLANT * size  # how far a letter of a heading reaches to the right
    overhang = max(((index + 0.5) * cell + columns(word) * slanted for index, word in enumerate(source)), default=0)
    width = 24 + max(left + len(source) * cell, left + overhang + 8, 24 + columns(picture.heading) * 11, left + 170)
    height = top + len(target) * cell + 58
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img" aria-label="{_text(_summary(picture))}" class="harken-svg">',
        f"<style>{_style(size)}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="title" x="24" y="36">{_text(picture.heading)}</text>',
    ]
    for index, word in enumerate(source):
        x, y = left + (index + 0.5) * cell, top - 8
        parts.append(
            f'<text class="word" transform="translate({x:.1f} {y:.1f}) rotate(-45)">{_text(word)}'
            f"<title>{_text(picture.source_words[index])}</title></text>"
        )
    for row, word in enumerate(target):
        y = top + (row + 0.5) * cell
        parts.append(
            f'<text class="word row" x="{left - 10:.1f}" y="{y:.1f}">{_text(word)}'
            f"<title>{_text(picture.target_words[row])}</title></text>"
        )
        for column, weight in enumerate(picture.weights[row]):
            hint = f"{picture.target_words[row]} ← {picture.source_words[column]}: {weight:.3f}"
            parts.append(_cell(left + column * cell, top + row * cell, cell, float(weight), hint, roomy))
    parts.append(_scale(left, top + len(target) * cell + 22))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _cell(x: float, y: float, size: int, weight: float, hint: str, roomy: bool) -> str:
    side = f'x="{x:.1f}" y="{y:.1f}" width="{size - 1}" height="{size - 1}"'
    drawn = f'<g><title>{_text(hint)}</title><rect class="empty" {side}/>'
    if weight >= 0.001:
        drawn += f'<rect class="ink" {side} fill-opacity="{weight:.3f}"/>'
    if roomy and weight >= 0.005:
        kind = "number deep" if weight >= DEEP else "number" if weight >= FAINT else "number faint"
        middle = (size - 1) / 2
        drawn += f'<text class="{kind}" x="{x + middle:.1f}" y="{y + middle:.1f}">{weight:.2f}</text>'
    return drawn + "</g>"


def _scale(x: float, y: float) -> str:
    """The key: five cells from nothing to all."""
    sides = [f'x="{x + 14 + index * 22:.1f}" y="{y:.1f}" width="21" height="10"' for index in range(5)]
    steps = "".join(
        f'<rect class="empty" {side}/><rect class="ink" {side} fill-opacity="{index / 4}"/>'
        for index, side in enumerate(sides)
    )
    return (
        f'<g><text class="key" x="{x:.1f}" y="{y + 9:.1f}">0</text>{steps}'
        f'<text class="key" x="{x + 130:.1f}" y="{y + 9:.1f}">1</text></g>'
    )


def _style(size: int) -> str:
    return (
        ".harken-svg{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
        f".harken-svg .title{{font-size:18px;font-weight:600}}.harken-svg .word{{font-size:{size}px}}"
        ".harken-svg .row{text-anchor:end;dominant-baseline:central}"
        ".harken-svg .number{font-size:11px;text-anchor:middle;dominant-baseline:central}"
        ".harken-svg .key{font-size:11px}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    return "".join(
        f".harken-svg {names}{{fill:{css(colour)}}}"
        for names, colour in [
            (".paper", palette.paper),
            (".ink", palette.ink),
            (".empty", palette.empty),
            ("text", palette.text),
            (".key", palette.muted),
            (".faint", palette.faint),
            (".deep", palette.paper),
        ]
    )


def _summary(picture: AlignmentMap) -> str:
    return f"{picture.heading}: {len(picture.target_words)} target words by {len(picture.source_words)} source words"


def _text(text: str) -> str:
    return escape(printable(text))
