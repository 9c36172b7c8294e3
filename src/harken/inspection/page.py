"""The page around a picture: one HTML document, complete in itself; nothing is fetched.

>>> page("A <map>", "<p>shades</p>").splitlines()[-3:]
['<body class="harken-page">', '<main><p>shades</p></main>', '</body></html>']
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources

from harken.inspection.words import printable

TIP = '<div class="tip" role="status" hidden></div>\n'  # where a script says what is pointed at


def page(title: str, body: str, style: str | None = None, kind: str = "harken-page", tail: str = "") -> str:
    """A whole document.

    Args:
        style: a style element; by default that of `page_style.html`.
        kind: the class of the body.
        tail: what stands behind the body: scripts and what they need.
    """
    style = asset("page_style") if style is None else style
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text(title)}</title>\n{style}</head>\n"
        f'<body class="{kind}">\n<main>{body}</main>\n{tail}</body></html>\n'
    )


def number_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of numbers, each named by its first cell."""
    head = "".join(f'<th scope="col">{text(name)}</th>' for name in headings)
    body = "".join(
        f'<tr><th scope="row">{text(first)}</th>'
        + "".join(f'<td class="number">{text(cell)}</td>' for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


@cache
def asset(name: str) -> str:
    """A file of style or script that ships beside this module."""
    return resources.files("harken.inspection").joinpath(f"{name}.html").read_text(encoding="utf-8")


def text(content: str) -> str:
    """Made harmless: a word that looks like a tag stays a word."""
    return escape(printable(content))
