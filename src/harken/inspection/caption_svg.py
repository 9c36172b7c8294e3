"""Maps over pictures as a drawing; every picture is inside it once, and shown again for each word under a veil."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from harken.inspection.page import text
from harken.inspection.pixels import data_address
from harken.inspection.svg import svg
from harken.inspection.words import cut, wrap

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionMap, CaptionPage

SIDE, GAP, LABEL, LEFT = 104, 12, 22, 24  # a panel, the space between, the line of its word, the margin
ACROSS = 7  # panels in a row
LETTERS = 13  # of a word above its panel
LINE = 19  # of text
WORDS = 84, 118  # columns of a title, and of other text
VEIL = 0.78  # how dark it is where a word does not look at all


def draw_svg(page: CaptionPage) -> str:
    """A complete SVG document."""
    width = 2 * LEFT + ACROSS * (SIDE + GAP) - GAP
    y, parts = 14.0, []
    heading = [("title", line) for line in wrap(page.title, WORDS[0])] if page.title else []
    heading += [("muted", line) for line in wrap(page.about, WORDS[1])] if page.about else []
    for kind, line in heading:
        y += LINE
        parts.append(f'<text class="{kind}" x="{LEFT}" y="{y:.0f}">{text(line)}</text>')
    y += 8 if heading else 0
    for one in page.maps:
        drawn, height = figure(one, y)
        parts.append(drawn)
        y += height
    looks = {
        ".title": "font-size:15px;font-weight:600",
        ".word": "font-size:13px",
        ".veil": "fill:#000;shape-rendering:crispEdges",
        ".box": "fill:none;stroke:#fff;stroke-width:1.5;stroke-dasharray:4 3",
    }
    return svg("caption", "", width, y + 10, parts, looks, label=page.heading)


def figure(picture: CaptionMap, top: float) -> tuple[str, float]:
    """One picture with its maps, from `top` on; and how high it is."""
    content = data_address(picture.image)
    name = f"p{crc32(content.encode()):08x}{int(top)}"
    parts = [
        f'<defs><image id="{name}" width="{SIDE}" height="{SIDE}" preserveAspectRatio="none" href="{content}"/></defs>',
        f'<text class="title" x="{LEFT}" y="{top + 20:.0f}">{text(cut(picture.title, WORDS[0]))}</text>',
    ]
    y = top + 28
    for note in picture.notes:
        y += LINE
        parts.append(f'<text class="muted" x="{LEFT}" y="{y - 4:.0f}">{text(cut(note, WORDS[1]))}</text>')
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
        f"<title>{text(word)}: {weights[row, column]:.3f}</title></rect>"
        for row in range(rows)
        for column in range(columns)
    )
    label = f'<text class="word" x="0" y="{LABEL - 7}">{text(cut(word, LETTERS))}</text>'
    return f'{label}<use href="#{name}" y="{LABEL}"/>{cells}'
