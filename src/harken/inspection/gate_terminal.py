"""Gates over time as lines of text: for every gate its mean at each step, and below it the liveliest units.

With colours every line holds two units (half blocks). Without, shades: ░▒▓█ above 0, and -=≡# below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.gate_picture import Field, Sheet
from harken.inspection.palette import DARK
from harken.inspection.words import columns, cut, fill, letters, printable

if TYPE_CHECKING:
    from harken.inspection.gate_picture import GatePicture

LINES = 4  # of units of a gate
LABEL = 17  # columns for its name and notes
WIDEST = 13  # columns of a step
TALLEST = 12  # letters of a word that is written downwards
ABOVE, BELOW = "·░▒▓█", "·-=≡#"


def lines(picture: GatePicture, width: int, color: bool) -> list[Text]:
    """All layers, one below the other, in at most `width` columns."""
    drawn = [Text(cut(picture.title, width), style="bold" if color else "")]
    for sheet in picture.sheets:
        drawn += [Text(), Text(cut(f"{sheet.name}   {sheet.cell}, {len(sheet.fields[0].values)} units", width))]
        room = max(width - LABEL, 2)
        size = room // 2  # steps that fit at the narrowest
        for start in range(0, len(sheet.words), size):
            drawn += ([Text()] if start else []) + _part(sheet, start, min(start + size, len(sheet.words)), room, color)
    return drawn


def _part(sheet: Sheet, start: int, end: int, room: int, color: bool) -> list[Text]:
    words = [printable(word) for word in sheet.words[start:end]]
    step = min(room // len(words), WIDEST)
    longest = max(columns(word) for word in words)
    if longest < step:
        step = max(longest + 1, 3)
        drawn = [Text(" " * LABEL + "".join(fill(word, step) for word in words))]
    else:
        step = min(step, 4)
        stacks = [letters(cut(word, TALLEST)) for word in words]
        height = max(map(len, stacks))
        drawn = []
        for level in range(height):
            row = (stack[level - height + len(stack)] if level >= height - len(stack) else "" for stack in stacks)
            drawn.append(Text(" " * LABEL + "".join(fill(letter, step) for letter in row)))
    for field in sheet.fields:
        drawn += _field(field, start, end, step, color)
    return drawn


def _field(field: Field, start: int, end: int, step: int, color: bool) -> list[Text]:
    rows = field.pick(2 * LINES if color else LINES)[:, start:end]
    head = Text().append(fill(field.name, LABEL), "bold" if color else None)
    if step >= 4:
        head.append("".join(fill(_number(value), step) for value in field.means()[start:end]))
    drawn = [head]
    for number in range(LINES):
        note = field.notes[number] if number < len(field.notes) else ""
        line = Text().append(fill(f"  {note}", LABEL), "dim" if color else None)
        if color:
            pair = rows[2 * number : 2 * number + 2]
            for values in pair.T if len(pair) else []:
                line.append("▀" * (step - 1), _colours(float(values[0]), float(values[-1]))).append(" ")
        elif number < len(rows):
            line.append("".join(_shade(float(value)) * (step - 1) + " " for value in rows[number]))
        drawn.append(line)
    return drawn


def _number(value: float) -> str:
    """Three columns: `.87`, or `1.2`."""
    return f"{value:.1f}" if value >= 0.995 else f"{value:.2f}"[1:]


def _shade(value: float) -> str:
    signs = ABOVE if value >= 0 else BELOW
    return signs[min(round(abs(value) * 4), 4)]


def _colours(upper: float, lower: float) -> Style:
    """Cells carry their own colours, so that they look the same on light and on dark terminals."""
    return Style(color=Color.from_rgb(*DARK.shade(upper)), bgcolor=Color.from_rgb(*DARK.shade(lower)))
