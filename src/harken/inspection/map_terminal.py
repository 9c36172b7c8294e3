"""A table of shades as lines of text.

Three layouts, the first that fits is taken: words above their columns with the number in every cell; narrow columns
with the words written downwards; or, for long sentences, one column a word, numbered, with a list of the words below,
in as many panels as the width asks for. Narrow layouts name each row's best column at its end where there is room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from harken.inspection.terminal import Cell, cell_of, three_columns
from harken.inspection.words import columns, cut, fill, letters, printable

if TYPE_CHECKING:
    from harken.inspection.shades import ShadeTable

TALLEST = 12  # letters of a word that is written downwards


def lines(picture: ShadeTable, width: int, color: bool) -> list[Text]:
    """The map as rich lines of at most `width` columns."""
    longest = max((columns(printable(word)) for word in picture.rows), default=0)
    label = max(1, min(longest, max(6, width // 4)))
    room = max(width - label - 2, 1)
    title = [Text(cut(picture.title, width), style="bold" if color else "")] if picture.title else []
    count = len(picture.columns)
    wide = [max(columns(printable(word)), 5) for word in picture.columns]
    if sum(wide) + count - 1 <= room:
        return title + _wide(picture, label, wide, color)
    if 2 * count <= room:
        return title + _downwards(picture, label, room, cell_of(color))
    return title + _numbered(picture, longest, width, color)


def _wide(picture: ShadeTable, label: int, widths: list[int], color: bool) -> list[Text]:
    cell, side = cell_of(color), "^" if color else "<"
    headings = (fill(word, width, side) for word, width in zip(picture.columns, widths, strict=True))
    drawn = [Text(" " * (label + 2) + " ".join(headings))]
    for word, row in zip(picture.rows, picture.weights, strict=True):
        cells = (Text(*cell(weight, width)) for weight, width in zip(row, widths, strict=True))
        drawn.append(Text(fill(word, label) + "  ") + Text(" ").join(cells))
    return drawn


def _downwards(picture: ShadeTable, label: int, room: int, cell: Cell) -> list[Text]:
    stacks = [letters(cut(word, TALLEST)) for word in picture.columns]
    height = max(map(len, stacks), default=0)
    drawn = []
    for level in range(height):
        line = Text(" " * (label + 2))
        for stack in stacks:
            at = level - (height - len(stack))  # words stand on the map
            line.append(fill(stack[at], 2) if at >= 0 else "  ")
        drawn.append(line)
    return drawn + _rows(picture, label, range(len(stacks)), cell, 2, room - 2 * len(stacks))


def _numbered(picture: ShadeTable, longest: int, width: int, color: bool) -> list[Text]:
    count = len(picture.columns)
    digits = len(str(count))
    wanted = width - count - 2 - (digits + 2)  # what labels may take if all is to stand in one panel
    label = max(1, min(longest, wanted if wanted >= 8 else max(6, width // 4)))
    room = max(width - label - 2 - (digits + 2), 1)
    panels = -(-count // room)
    size = -(-count // panels)  # panels of equal width
    drawn: list[Text] = []
    for start in range(0, count, size):
        panel = range(start, min(start + size, count))
        if start:
            drawn.append(Text())
        for digit in range(digits):
            numbers = (str(index + 1).rjust(digits)[digit] for index in panel)
            drawn.append(Text(" " * (label + 2) + "".join(numbers), style="dim" if color else ""))
        drawn += _rows(picture, label, panel, cell_of(color), 1, width - label - 2 - len(panel))
    drawn.append(Text())
    return drawn + _legend(picture.columns, width)


def _rows(picture: ShadeTable, label: int, panel: range, cell: Cell, width: int, left: int) -> list[Text]:
    """One line for each row; in the `left` columns its best column is named, or given by its number."""
    drawn = []
    for word, row in zip(picture.rows, picture.weights, strict=True):
        line = Text(fill(word, label) + "  ")
        for index in panel:
            line.append(*cell(row[index], width))
        best = int(row.argmax())
        number = str(best + 1)
        if best in panel and row[best] > 0:
            if left >= 12:
                line.append(f"  {cut(picture.columns[best], left - 6)} {three_columns(row[best])}")
            elif width == 1 and left >= len(number) + 2:
                line.append(f"  {number}")
        drawn.append(line)
    return drawn


def _legend(words: list[str], width: int) -> list[Text]:
    """The numbered words, wrapped."""
    drawn: list[Text] = []
    line = ""
    for number, word in enumerate(words, 1):
        entry = cut(f"{number} {printable(word)}", width)
        if line and columns(line) + 2 + columns(entry) > width:
            drawn.append(Text(line))
            line = ""
        line += ("  " if line else "") + entry
    return [*drawn, Text(line)]
