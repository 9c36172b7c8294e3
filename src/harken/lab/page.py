"""Reports as one self-contained HTML page: verdict, picture and table of each experiment; nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from harken.inspection.page import page
from harken.inspection.palette import DARK, LIGHT, Palette, css
from harken.lab.drawing import draw_svg

if TYPE_CHECKING:
    from harken.lab.report import Report

STYLE = """
body{font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;margin:0;
  background:var(--paper);color:var(--text)}
main{max-width:1100px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:22px;margin:0 0 4px}section{margin:0 0 56px}
.claim{color:var(--muted);margin:0 0 12px}
.verdict{border-left:4px solid var(--ink);padding:4px 12px;margin:0 0 16px}
.picture{background:#fff;border-radius:6px;overflow-x:auto;padding:6px}
.picture svg{max-width:100%;height:auto;display:block}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:18px 0 6px;font-variant-numeric:tabular-nums}
th,td{padding:4px 14px 4px 0;text-align:left;border-bottom:1px solid var(--empty);white-space:nowrap}
th{color:var(--muted);font-weight:600}td.number,th.number{text-align:right}
.cost{color:var(--muted);font-size:13px}
"""


def draw_page(reports: Sequence[Report]) -> str:
    """A whole HTML document, one section for each report."""
    title = reports[0].experiment.statement if len(reports) == 1 else "harken lab"
    sections = "\n".join(_section(report, number) for number, report in enumerate(reports))
    colours = f":root{{{_variables(LIGHT)}}}@media (prefers-color-scheme:dark){{:root{{{_variables(DARK)}}}}}"
    return page(title, f"\n{sections}\n", f"<style>{colours}{STYLE}</style>\n", kind="harken-lab")


def _section(report: Report, number: int) -> str:
    from harken.lab.report import cell_text

    found, experiment = report.findings, report.experiment
    numeric = [all(isinstance(row[at], int | float) for row in found.rows) for at in range(len(found.columns))]
    kinds = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(f"<th{kind}>{escape(word)}</th>" for kind, word in zip(kinds, found.columns, strict=True))
    body = "\n".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(cell_text(cell))}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in found.rows
    )
    return (
        f'<section id="{escape(experiment.name)}"><h1>{escape(experiment.name)}</h1>\n'
        f'<p class="claim">{escape(experiment.statement)}</p>\n<p class="verdict">{escape(report.verdict)}</p>\n'
        f'<div class="picture">{_inline(draw_svg(found.figure), number)}</div>\n'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>\n'
        f'<p class="cost">seed {report.settings.seed}, {report.seconds:.0f} s, {report.cpu_seconds:.0f} CPU s</p>'
        "</section>"
    )


def _inline(svg: str, number: int) -> str:
    """The drawing without the prologue of a file, its ids its own among others on the page."""
    drawing = svg[svg.index("<svg") :]
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>p{number}-", drawing)


def _variables(palette: Palette) -> str:
    words = {"paper": palette.paper, "text": palette.text, "muted": palette.muted, "ink": palette.ink}
    return "".join(f"--{name}:{css(colour)};" for name, colour in (words | {"empty": palette.empty}).items())
