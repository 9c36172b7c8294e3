"""A table of shades for browsers: a page of its own, or a piece for a notebook.

It is a real table, so that screen readers can walk it; headings stay in sight while it scrolls. The page adds a script:
pointing at a cell, or walking there with the arrow keys, shows its two words and its weight. A notebook may run no
scripts, so there the browser's own hint does it. Style and script are in the files beside this one; nothing is fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.page import TIP, asset, page, text
from harken.inspection.palette import DEEP, FAINT
from harken.inspection.words import cut

if TYPE_CHECKING:
    from harken.inspection.shades import ShadeTable

ROOMY = 14  # up to this many columns the number stands in the cell
LONGEST = 26  # columns of a label


def draw_page(picture: ShadeTable) -> str:
    """A whole HTML document, complete in itself."""
    return map_page(picture, heading(picture) + table(picture), asset("map_script"))


def map_page(picture: ShadeTable, body: str, scripts: str) -> str:
    """The page around one map or several."""
    return page(picture.heading, body, asset("map_style"), f"harken-map {density(picture)}", TIP + scripts)


def fragment(picture: ShadeTable) -> str:
    """What a notebook shows: style and table, without script."""
    lit = ",\n".join(
        f".harken-map.still:has(td:nth-child({column}):hover) thead th:nth-child({column})"
        for column in range(2, len(picture.columns) + 2)
    )  # the heading of the column pointed at
    rule = f"{lit} {{ color: rgb(var(--ink)); font-weight: 600; }}\n" if lit else ""
    style = asset("map_style").replace("</style>", rule + "</style>")
    inside = heading(picture, level="div") + table(picture, hints=True)
    return f'{style}<div class="harken-map still {density(picture)}" style="padding:12px 14px">{inside}</div>'


def heading(picture: ShadeTable, level: str = "h1") -> str:
    """Title, what is shown, and the key of the shades."""
    return (
        f'<div class="heading"><{level} class="title">{text(picture.heading)}</{level}>'
        f'<p class="about">{text(picture.size)}</p>'
        '<span class="key" role="img" aria-label="Shade shows the weight, from 0 to 1">0<i></i>1</span></div>'
    )


def table(picture: ShadeTable, hints: bool = False) -> str:
    """The map itself; `hints` gives every cell the browser's own tooltip."""
    head = "".join(_label(word, "col") for word in picture.columns)
    rows = []
    for word, weights in zip(picture.rows, picture.weights, strict=True):
        cells = "".join(
            _cell(float(weight), f"{word} ← {other}: {weight:.3f}" if hints else "")
            for other, weight in zip(picture.columns, weights, strict=True)
        )
        rows.append(f"<tr>{_label(word, 'row')}{cells}</tr>")
    corner = text(f"{picture.across} →") + "<br>" + text(f"{picture.down} ↓")
    label = f"{picture.heading}: weight of every {picture.across} (columns) for every {picture.down} (rows)"
    return (
        f'<div class="scroll" tabindex="-1"><table class="map" aria-label="{text(label)}">'
        f'<thead><tr><th class="corner" scope="col">{corner}</th>{head}</tr></thead>\n'
        f"<tbody>{chr(10).join(rows)}</tbody></table></div>"
    )


def density(picture: ShadeTable) -> str:
    """The class that chooses between large cells with numbers and small ones."""
    return "roomy" if len(picture.columns) <= ROOMY else "dense"


def _label(word: str, scope: str) -> str:
    short = cut(word, LONGEST)
    hint = f' title="{text(word)}"' if short != word else ""
    return f'<th scope="{scope}" dir="auto"{hint}><span>{text(short)}</span></th>'


def _cell(weight: float, hint: str) -> str:
    kind = ' class="deep"' if weight >= DEEP else ' class="faint"' if weight < FAINT else ""
    title = f' title="{text(hint)}"' if hint else ""
    return f'<td style="--w:{weight:.3f}"{kind}{title}>{weight:.2f}</td>'
