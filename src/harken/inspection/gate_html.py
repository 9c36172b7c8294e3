"""Gates over time as a page for browsers: every unit of every gate, drawn on canvases from numbers in the page.

Pointing at a field shows the unit, the word and the value, and the mean over all units at that step. Without scripts
the drawing of `gate_svg` stands there instead.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from harken.inspection.gate_picture import Field, Sheet
from harken.inspection.gate_svg import draw_svg
from harken.inspection.page import TIP, asset, page, text

if TYPE_CHECKING:
    from harken.inspection.gate_picture import GatePicture


def draw_page(picture: GatePicture) -> str:
    """A whole HTML document, complete in itself."""
    buttons = "".join(
        f'<button type="button" aria-pressed="{str(number == 0).lower()}">{text(sheet.name)}</button>'
        for number, sheet in enumerate(picture.sheets)
    )
    several = f'<div class="layers" role="group" aria-label="Layers">{buttons}</div>' if len(picture.sheets) > 1 else ""
    sections = "".join(_section(sheet, number) for number, sheet in enumerate(picture.sheets))
    numbers = json.dumps([_numbers(sheet) for sheet in picture.sheets], ensure_ascii=False, separators=(",", ":"))
    numbers = numbers.replace("<", "\\u003c")  # a word such as </s> must not end the script
    about = (
        '<p class="about">Units downwards, those that keep most on top; words across. Gates '
        '0<i class="gate"></i>1, candidates and states −1<i class="signed"></i>1.</p>'
    )
    body = f"<h1>{text(picture.title)}</h1>{about}{several}{sections}"
    tail = (
        f"<noscript>{draw_svg(picture)}</noscript>\n{TIP}"
        f'<script type="application/json" id="gates">{numbers}</script>\n{asset("gate_script")}'
    )
    return page(picture.title, body, tail=tail)


def _section(sheet: Sheet, number: int) -> str:
    rows = "".join(_row(field) for field in sheet.fields)
    words = "".join(f"<span title='{text(word)}'>{text(word)}</span>" for word in sheet.words)
    about = f"{text(sheet.cell)}, {len(sheet.fields[0].values)} units"
    head = f'<tr><th>{about}</th><td><div class="words">{words}</div></td></tr>'
    hidden = " hidden" if number else ""
    label = text(f"Gates of {sheet.name}")
    table = f'<div class="scroll"><table class="gates">{head}{rows}</table></div>'
    return f'<section{hidden} aria-label="{label}">{table}</section>'


def _row(field: Field) -> str:
    notes = "".join(f"<span>{text(note)}</span>" for note in field.notes)
    label = text(f"{field.name}: {', '.join(field.notes)}")
    canvas = f'<canvas role="img" aria-label="{label}"></canvas>'
    return f'<tr><th scope="row"><b>{text(field.name)}</b>{notes}</th><td>{canvas}</td></tr>'


def _numbers(sheet: Sheet) -> dict[str, object]:
    fields = [
        {
            "name": field.name,
            "scale": round(field.scale, 4),
            "units": field.units.tolist(),
            "values": np.rint(field.values * 1000).astype(int).ravel().tolist(),
        }
        for field in sheet.fields
    ]
    return {"words": sheet.words, "fields": fields}
