"""Gradients as a page for browsers: the chart, what the verdict rests on, and the gradients at the gates.

Everything is in the page; pointing at a dot shows its number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harken.inspection.chart_svg import draw_svg
from harken.inspection.page import page, text

if TYPE_CHECKING:
    from harken.inspection.flow_picture import FlowPicture

MEANINGS = {
    "× a step": "what one step back does to the gradient, by a line fitted to its logarithm",
    "half-life": "steps in which it halves, or doubles where it grows",
    "arrives": "share of the gradient that arrives at the longest distance, by that line",
    "max σ(U)": "largest singular value of the recurrent weights, all gates together",
    "max σ(J)": "largest singular value of the step's Jacobian, mean over the steps looked at; an LSTM's of (h, C)",
    "growth": "the product of all steps' Jacobians, its largest singular value as a factor a step",
}


def draw_page(picture: FlowPicture) -> str:
    """A whole HTML document, complete in itself."""
    gates = picture.gate_chart()
    parts = [f'<div class="scroll">{draw_svg(picture.chart())}</div>', _table(picture), _meanings()]
    if gates is not None:
        parts.append(f'<div class="scroll">{draw_svg(gates)}</div>')
    return page(picture.title, "".join(parts))


def _table(picture: FlowPicture) -> str:
    headings, rows = picture.rows()
    head = "".join(f'<th scope="col" title="{text(MEANINGS.get(name, ""))}">{text(name)}</th>' for name in headings)
    body = "".join(
        "<tr>"
        + f'<th scope="row">{text(row[0])}</th><td>{text(row[1])}</td><td class="{text(row[2])}">{text(row[2])}</td>'
        + "".join(f'<td class="number">{text(cell)}</td>' for cell in row[3:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _meanings() -> str:
    entries = "".join(f"<dt>{text(name)}</dt><dd>{text(meaning)}</dd>" for name, meaning in MEANINGS.items())
    return f"<details><summary>What the numbers are</summary><dl>{entries}</dl></details>"
