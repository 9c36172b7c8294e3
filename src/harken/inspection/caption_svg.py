"""Maps over pictures as a drawing; every picture is inside it once, and shown again for each word under a veil."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from zlib import crc32

from harken.inspection.palette import DARK, LIGHT, Palette, css
from harken.inspection.pixels import data_address
from harken.inspection.words import cut, printable

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionMap, CaptionPage

SIDE, GAP, LABEL, LEFT = 104, 12, 22, 20  # a panel, the space between, the line of its word, the margin
ACROSS = 7  # panels in a row
LETTERS = 15  # of a word above its panel
LINE = 19  # of text
VEIL = 0.78  # how dark it is where a word does not look at all


def draw_svg(page: CaptionPage) -> str:
    """A complete SVG document."""
    width = 2 * LEFT + ACROSS * (SIDE + GAP) - GAP
    y, parts = 14.0, []
    for line, kind in ((page.title, "title"), (page.about, "note")):
        if line:
            y += LINE + 4
            parts.append(f'<text class="{kind}" x="{LEFT}" y="{y:.0f}">{_text(line)}</text>')
    for one in page.maps:
        drawn, height = figure(one, y)
        parts.append(drawn)
        y += height
    label = page.title or (page.maps[0].title if page.maps else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y + 10:.0f}" width="{width}" '
        f'height="{y + 10:.0f}" role="img" aria-label="{_text(label)}" class="harken-caption">\n'
        f"<style>{style()}</style>\n"
        f'<rect class="paper" width="{width}" height="{y + 10:.0f}"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def figure(picture: CaptionMap, top: float) -> tuple[str, float]:
    """One picture with its maps, from `top` on; and how high it is."""
    content = data_address(picture.image)
    name = f"p{crc32(content.encode()):08x}{int(top)}"
    parts = [
        f'<defs><image id="{name}" width="{SIDE}" height="{SIDE}" preserveAspectRatio="none" href="{content}"/></defs>',
        f'<text class="title" x="{LEFT}" y="{top + 20:.0f}">{_text(cut(picture.title, 90))}</text>',
    ]
    y = top + 28
    for note in picture.notes:
        y += LINE
        parts.append(f'<text class="note" x="{LEFT}" y="{y - 4:.0f}">{_text(cut(note, 130))}</text>')
    panels = [_picture(picture, name), *(_word(picture, index, name) for index in range(len(picture.words)))]
    for index, panel in enumerate(panels):
        row, column = divmod(index, ACROSS)
        place = f"translate({LEFT + column * (SIDE + GAP)} {y + row * (SIDE + LABEL + GAP):.0f})"
        parts.append(f'<g transform="{place}">{panel}</g>')
    rows = -(-len(panels) // ACROSS)
    return "\n".join(parts), y - top + rows * (SIDE + LABEL + GAP)


def _picture(picture: CaptionMap, name: str) -> str:
    boxes = "".join(
        f'<rect class="box" x="{left * SIDE:.1f}" y="{LABEL + top * SIDE:.1f}" width="{(right - left) * SIDE:.1f}" '
        f'height="{(bottom - top) * SIDE:.1f}"/>'
        for left, top, right, bottom in picture.boxes
    )
    return f'<use href="#{name}" y="{LABEL}"/>{boxes}'


def _word(picture: CaptionMap, index: int, name: str) -> str:
    word, weights, strengths = picture.words[index], picture.weights[index], picture.strengths[index]
    rows, columns = weights.shape
    high, wide = SIDE / rows, SIDE / columns
    cells = "".join(
        f'<rect class="veil" x="{column * wide:.2f}" y="{LABEL + row * high:.2f}" width="{wide:.2f}" '
        f'height="{high:.2f}" fill-opacity="{VEIL * (1 - strengths[row, column]):.2f}">'
        f"<title>{_text(word)}: {weights[row, column]:.3f}</title></rect>"
        for row in range(rows)
        for column in range(columns)
    )
    label = f'<text class="word" x="0" y="{LABEL - 7}">{_text(cut(word, LETTERS))}</text>'
    return f'{label}<use href="#{name}" y="{LABEL}"/>{cells}'


def style() -> str:
    """Shared with the page."""
    return (
        ".harken-caption{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}"
        ".harken-caption .title{font-size:15px;font-weight:600}.harken-caption .word{font-size:13px}"
        ".harken-caption .note{font-size:12px}.harken-caption .veil{fill:#000;shape-rendering:crispEdges}"
        ".harken-caption .box{fill:none;stroke:#fff;stroke-width:1.5;stroke-dasharray:4 3}"
        f"{_colours(LIGHT)}@media (prefers-color-scheme:dark){{{_colours(DARK)}}}"
    )


def _colours(palette: Palette) -> str:
    names = ((".paper", palette.paper), ("text", palette.text), (".note", palette.muted))
    return "".join(f".harken-caption {name}{{fill:{css(colour)}}}" for name, colour in names)


def _text(text: str) -> str:
    return escape(printable(text))
