"""Figures as one HTML page that needs no network: tooltips, a picker for layers, dark mode, tables for screen readers.

Heat maps are real tables; arrow keys walk through their cells. Other panels are SVG drawings, each with its numbers in
a table below. Style and script are in `page.css` and `page.js` in this folder.

>>> "<main><p>shades</p></main>" in page("A <map>", "<p>shades</p>")
True
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources

from harken.errors import require_extra
from harken.inspection.figure.palette import DARK, DEEP, FAINT, LIGHT, Palette, css
from harken.inspection.figure.spec import Figure, Heat, Panel
from harken.inspection.figure.text import cut, printable
from harken.inspection.figure.values import number, table

ROOMY = 14  # up to this many columns the number stands in the cell
LEAST = 0.75  # of its size on paper that a drawing keeps in a narrow window, so that its words can be read


def draw_page(title: str, figures: Sequence[Figure], tail: str = "") -> str:
    """A whole document; `tail` stands below the figures.

    Where the figures have names, buttons pick which of them is shown; names such as "layer 1 / head 2" make a grid.
    """
    picking = len(figures) > 1 and all(figure.name for figure in figures)
    sections = "".join(
        section(figure, title, picking, hidden=picking and bool(at)) for at, figure in enumerate(figures)
    )
    if picking:
        kind = ' class="with-grid"' if " / " in figures[0].name else ""
        sections = f"<div{kind}>{_picker([figure.name for figure in figures])}<div>{sections}</div></div>"
    return page(title, f'<h1 dir="auto">{text(title)}</h1>{sections}{tail}')


def page(title: str, body: str) -> str:
    """A document with the style and the script of all pages."""
    colours = f":root{{{_variables(LIGHT)}}}@media (prefers-color-scheme: dark){{:root{{{_variables(DARK)}}}}}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n<style>\n{colours}\n{asset('page.css')}</style>\n</head>\n"
        f'<body class="harken-page">\n<main>{body}</main>\n<div class="tip" role="status" hidden></div>\n'
        f"<script>\n{asset('page.js')}</script>\n</body></html>\n"
    )


def section(figure: Figure, above: str = "", picking: bool = False, hidden: bool = False) -> str:
    """One figure: its title unless it stands `above` already, its panels, and its note."""
    heading = "" if figure.title in ("", above) else f'<h2 dir="auto">{text(figure.title)}</h2>'
    heats = [panel for panel in figure.panels if isinstance(panel, Heat)]
    named = sum(panel.row_names for panel in heats)
    maps = "".join(heat_table(panel, figure.title, len(heats), named) for panel in heats)
    others = [panel for panel in figure.panels if not isinstance(panel, Heat)]
    drawing = _drawing(others, figure) if others else ""
    note = f'<p class="note">{text(figure.note)}</p>' if figure.note else ""
    view = f' data-view="{text(figure.name)}"' if picking else ""
    return f'<section{view}{" hidden" * hidden}>{heading}{drawing}<div class="panels">{maps}</div>{note}</section>\n'


def _drawing(panels: Sequence[Panel], figure: Figure) -> str:
    """An SVG and the numbers in it."""
    require_extra("matplotlib", "plot", "a picture")
    from harken.inspection.figure.paper import draw_svg

    svg = draw_svg([Figure("", panels, across=figure.across)]).replace(
        'aria-label="figure"', f'aria-label="{text(figure.title)}"', 1
    )
    wide = float(svg.split(' width="', 1)[1].split("pt", 1)[0]) * 4 / 3
    tables = "".join(value_table(*values, caption=panel.title) for panel in panels if (values := table(panel))[1])
    details = f"<details><summary>Values as a table</summary>{tables}</details>" if tables else ""
    sized = f'<div style="min-width:{LEAST * wide:.0f}px;max-width:{1.3 * wide:.0f}px">{svg}</div>'
    return _scrolling(sized, figure.title or "Figure") + details


def _scrolling(inside: str, label: str) -> str:
    """A region that scrolls where it is wider than the window, by keys as well; edges with more beyond them fade."""
    region = f'<div class="scroll" tabindex="0" role="region" aria-label="{text(label)}">{inside}</div>'
    return f'<div class="frame">{region}</div>'


def heat_table(panel: Heat, title: str = "", beside: int = 1, named: int = 1) -> str:
    """A table of shades with its key; one of `beside` in a row of the page, `named` of them with names of rows."""
    strengths, (low, high) = panel.strengths(), panel.limits
    head = "".join(_heading(word, "col") for word in panel.columns)
    body = []
    for row, word in enumerate(panel.rows):
        cells = "".join(
            _cell(panel, row, column, float(strengths[row, column])) for column in range(len(panel.columns))
        )
        body.append(f"<tr>{_heading(('● ' if row in panel.marked else '') + word, 'row')}{cells}</tr>")
    kind = "" if panel.form and len(panel.columns) <= ROOMY else " dense"
    kind += " low" * (len(panel.rows) > 16 and not panel.form) + " bare" * (not panel.row_names)
    corner = "<br>".join(
        text(f"{word} {arrow}") for word, arrow in ((panel.x_label, "→"), (panel.y_label, "↓")) if word
    )
    own = f"<h3>{text(panel.title)}</h3>" if panel.title not in ("", title) else ""
    mark = f'<p class="note">● {text(panel.mark_label)}</p>' if panel.mark_label else ""
    key = f'<div class="key">{number(low) or 0}<i{" class=signed" * panel.signed}></i>{number(high)}</div>'
    label = text(f"{panel.title or title}: {panel.x_label} across, {panel.y_label} down")
    return (
        f'<div>{own}{key}<div class="frame"><div class="scroll" tabindex="-1"><table class="map{kind}" '
        f'style="--n:{max(len(panel.columns), 1) * beside};--k:{named}" aria-label="{label}">'
        f'<thead><tr><th class="corner" scope="col">{corner}</th>{head}</tr></thead>\n'
        f"<tbody>{''.join(body)}</tbody></table></div></div>{mark}</div>\n"
    )


def _heading(word: str, scope: str) -> str:
    short = cut(word, 26 if scope == "col" else 60)
    hint = f' title="{text(word)}"' if short != word else ""
    return f'<th scope="{scope}" dir="auto"{hint}><span>{text(short)}</span></th>'


def _cell(panel: Heat, row: int, column: int, strength: float) -> str:
    size, value = abs(strength), float(panel.values[row][column])
    kinds = ["neg"] * (strength < 0) + ["deep"] * (size >= DEEP) + ["faint"] * (size < FAINT)
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    exact = f' data-v="{value:.4g}"' if abs(value - size) > 5e-4 else ""
    shown = text(panel.number(row, column, panel.form or "{:.2f}"))
    return f'<td style="--w:{size:.3f}"{kind}{exact}>{shown}</td>'


def value_table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Rows of numbers, each named by its first cell."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in headings)
    body = "".join(
        f'<tr><th scope="row" dir="auto">{text(first)}</th>{"".join(f"<td>{text(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    named = f"<caption>{text(caption)}</caption>" if caption else ""
    inside = f"{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return _scrolling(f'<table class="values">{inside}</table>', caption or "Table")


def _picker(names: list[str]) -> str:
    """Buttons in a row, or in a grid with a small picture of each map."""
    pairs = [tuple(name.split(" / ", 1)) for name in names]
    if len(pairs[0]) == 1:
        buttons = "".join(_button(name, text(name), first=not at) for at, name in enumerate(names))
        return f'<div class="picker" role="group" aria-label="Layers">{buttons}</div>'
    rows, columns = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
    canvas = '<canvas width="1" height="1"></canvas>'
    body = ""
    for row in rows:
        cells = (f"{row} / {column}" for column in columns)
        body += (
            f'<tr><th scope="row">{text(row)}</th>'
            + "".join(
                f"<td>{_button(name, canvas, first=name == names[0])}</td>" if name in names else "<td></td>"
                for name in cells
            )
            + "</tr>"
        )
    head = "".join(f'<th scope="col">{text(column)}</th>' for column in columns)
    table = f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="picker" role="group" aria-label="Layers and heads">{table}</div>'


def _button(name: str, inside: str, first: bool) -> str:
    label = text(name.replace(" / ", ", "))
    return (
        f'<button type="button" data-view="{text(name)}" title="{label}" aria-label="{label}" '
        f'aria-pressed="{str(first).lower()}"{" data-first" * first}>{inside}</button>'
    )


def _variables(palette: Palette) -> str:
    names = ("paper", "text", "muted", "faint", "empty", "line", "ink", "warm")
    return "".join(f"--{name}:{css(getattr(palette, name))};" for name in names)


@cache
def asset(name: str) -> str:
    """A file of style or script that ships in this folder."""
    return resources.files("harken.inspection.figure").joinpath(name).read_text(encoding="utf-8")


def text(content: str) -> str:
    """Made harmless: a word that looks like a tag stays a word."""
    return escape(printable(content))
