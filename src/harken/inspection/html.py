"""The alignment map as a table for browsers: a page of its own, or a piece for a notebook.

It is a real table, so that screen readers can walk it; headings stay in sight while it scrolls. The page adds a script:
pointing at a cell, or walking there with the arrow keys, shows its two words and its weight. A notebook may run no
scripts, so there the browser's own hint does it. Style and script are in the files beside this one; nothing is fetched.
"""

from __future__ import annotations

from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from harken.inspection.palette import DEEP, FAINT
from harken.inspection.words import cut, printable

if TYPE_CHECKING:
    from harken.inspection.alignment import AlignmentMap

ROOMY = 14  # up to this many source words the number stands in the cell
LONGEST = 26  # columns of a label


def page(picture: AlignmentMap) -> str:
    """A whole HTML document, complete in itself."""
    return document(picture.heading, density(picture), heading(picture) + table(picture), asset("map_script"))


def fragment(picture: AlignmentMap) -> str:
    """What a notebook shows: style and table, without script."""
    lit = ",\n".join(
        f".harken-map.still:has(td:nth-child({column}):hover) thead th:nth-child({column})"
        for column in range(2, len(picture.source_words) + 2)
    )  # the heading of the column pointed at
    rule = f"{lit} {{ color: rgb(var(--ink)); font-weight: 600; }}\n" if lit else ""
    style = asset("map_style").replace("</style>", rule + "</style>")
    inside = heading(picture, level="div") + table(picture, hints=True)
    return f'{style}<div class="harken-map still {density(picture)}" style="padding:12px 14px">{inside}</div>'


def document(title: str, kind: str, body: str, script: str) -> str:
    """The page around a map."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n{asset('map_style')}</head>\n"
        f'<body class="harken-map {kind}">\n<main>{body}</main>\n'
        f'<div class="tip" role="status" hidden></div>\n{script}</body>\n</html>\n'
    )


def heading(picture: AlignmentMap, level: str = "h1") -> str:
    """Title, what is shown, and the key of the shades."""
    about = f"{_count(picture.target_words, 'target')} by {_count(picture.source_words, 'source')}"
    return (
        f'<div class="heading"><{level} class="title">{text(picture.heading)}</{level}><p class="about">{about}</p>'
        '<span class="key" role="img" aria-label="Shade shows the weight, from 0 to 1">0<i></i>1</span></div>'
    )


def table(picture: AlignmentMap, hints: bool = False) -> str:
    """The map itself; `hints` gives every cell the browser's own tooltip."""
    head = "".join(_label(word, "col") for word in picture.source_words)
    rows = []
    for word, weights in zip(picture.target_words, picture.weights, strict=True):
        cells = "".join(
            _cell(float(weight), f"{word} ← {other}: {weight:.3f}" if hints else "")
            for other, weight in zip(picture.source_words, weights, strict=True)
        )
        rows.append(f"<tr>{_label(word, 'row')}{cells}</tr>")
    label = f"{picture.heading}: weight of every source word (columns) for every target word (rows)"
    return (
        f'<div class="scroll" tabindex="-1"><table class="map" aria-label="{text(label)}">'
        f'<thead><tr><th class="corner" scope="col">source&nbsp;→<br>target&nbsp;↓</th>{head}</tr></thead>\n'
        f"<tbody>{chr(10).join(rows)}</tbody></table></div>"
    )


def density(picture: AlignmentMap) -> str:
    """The class that chooses between large cells with numbers and small ones."""
    return "roomy" if len(picture.source_words) <= ROOMY else "dense"


@cache
def asset(name: str) -> str:
    """A file of style or script that ships beside this module."""
    return resources.files("harken.inspection").joinpath(f"{name}.html").read_text(encoding="utf-8")


def text(content: str) -> str:
    """Made harmless: a word that looks like a tag stays a word."""
    return escape(printable(content))


def _label(word: str, scope: str) -> str:
    short = cut(word, LONGEST)
    hint = f' title="{text(word)}"' if short != word else ""
    return f'<th scope="{scope}" dir="auto"{hint}><span>{text(short)}</span></th>'


def _cell(weight: float, hint: str) -> str:
    kind = ' class="deep"' if weight >= DEEP else ' class="faint"' if weight < FAINT else ""
    title = f' title="{text(hint)}"' if hint else ""
    return f'<td style="--w:{weight:.3f}"{kind}{title}>{weight:.2f}</td>'


def _count(words: list[str], name: str) -> str:
    return f"{len(words)} {name} word{'' if len(words) == 1 else 's'}"
