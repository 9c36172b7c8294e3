"""The alignment map as lines of text.

Three layouts, the first that fits is taken: words above their columns with the number in every cell; narrow columns
with the words written downwards; or, for long sentences, one column a word, numbered, with a list of the words below,
in as many panels as the width asks for. Narrow layouts name each row's best source word at its end where there is room.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from harken.inspection.palette import DARK, DEEP, FAINT
from harken.inspection.words import columns, cut, fill, letters, printable

if TYPE_CHECKING:
    from harken.inspection.alignment import AlignmentMap

SHADES = "·░▒▓█"
TALLEST = 12  # letters of a word that is written downwards
Cell = Callable[[float, int], tuple[str, Style]]  # weight, columns -> what to write, and how


def render(picture: AlignmentMap, width: int | None, color: bool | None) -> str:
    """The map as one string, with ANSI colours if `color`."""
    return as_text(lambda columns, coloured: lines(picture, columns, coloured), width, color)


def as_text(draw: Callable[[int, bool], list[Text]], width: int | None, color: bool | None) -> str:
    """What `draw(columns, coloured)` gives as one string; both are the terminal's where they are not said."""
    terminal = Console()
    if color is None:
        color = terminal.is_terminal and terminal.color_system is not None and not terminal.no_color
    system = (terminal.color_system or "truecolor") if color else None
    drawn = draw(width or terminal.width, color)
    if system is None:
        return "\n".join(line.plain.rstrip() for line in drawn)
    file = io.StringIO()
    writer = Console(file=file, force_terminal=True, color_system=system, width=10_000, no_color=False)  # type: ignore[arg-type]
    writer.print(*drawn, sep="\n", end="", no_wrap=True)
    return file.getvalue()


def lines(picture: AlignmentMap, width: int, color: bool) -> list[Text]:
    """The map as rich lines of at most `width` columns."""
    longest = max((columns(printable(word)) for word in picture.target_words), default=0)
    label = max(1, min(longest, max(6, width // 4)))
    room = max(width - label - 2, 1)
    cell = cell_of(color)
    title = [Text(cut(picture.title, width), style="bold" if color else "")] if picture.title else []
    source = len(picture.source_words)
    wide = [max(columns(printable(word)), 5) for word in picture.source_words]
    if sum(wide) + source - 1 <= room:
        return title + _wide(picture, label, wide, cell)
    if 2 * source <= room:
        return title + _downwards(picture, label, room, cell)
    return title + _numbered(picture, longest, width, cell)


def _wide(picture: AlignmentMap, label: int, widths: list[int], cell: Cell) -> list[Text]:
    side = "^" if cell is _coloured else "<"
    headings = (fill(word, width, side) for word, width in zip(picture.source_words, widths, strict=True))
    drawn = [Text(" " * (label + 2) + " ".join(headings))]
    for word, row in zip(picture.target_words, picture.weights, strict=True):
        cells = (Text(*cell(weight, width)) for weight, width in zip(row, widths, strict=True))
        drawn.append(Text(fill(word, label) + "  ") + Text(" ").join(cells))
    return drawn


def _downwards(picture: AlignmentMap, label: int, room: int, cell: Cell) -> list[Text]:
    stacks = [letters(cut(word, TALLEST)) for word in picture.source_words]
    height = max(map(len, stacks), default=0)
    drawn = []
    for level in range(height):
        line = Text(" " * (label + 2))
        for stack in stacks:
            at = level - (height - len(stack))  # words stand on the map
            line.append(fill(stack[at], 2) if at >= 0 else "  ")
        drawn.append(line)
    return drawn + _rows(picture, label, range(len(stacks)), cell, 2, room - 2 * len(stacks))


def _numbered(picture: AlignmentMap, longest: int, width: int, cell: Cell) -> list[Text]:
    source = len(picture.source_words)
    digits = len(str(source))
    wanted = width - source - 2 - (digits + 2)  # what labels may take if all is to stand in one panel
    label = max(1, min(longest, wanted if wanted >= 8 else max(6, width // 4)))
    room = max(width - label - 2 - (digits + 2), 1)
    panels = -(-source // room)
    size = -(-source // panels)  # panels of equal width
    drawn: list[Text] = []
    for start in range(0, source, size):
        panel = range(start, min(start + size, source))
        if start:
            drawn.append(Text())
        for digit in range(digits):
            numbers = (str(index + 1).rjust(digits)[digit] for index in panel)
            drawn.append(Text(" " * (label + 2) + "".join(numbers), style="dim" if cell is _coloured else ""))
        drawn += _rows(picture, label, panel, cell, 1, width - label - 2 - len(panel))
    drawn.append(Text())
    return drawn + _legend(picture.source_words, width)


def _rows(picture: AlignmentMap, label: int, panel: range, cell: Cell, width: int, left: int) -> list[Text]:
    """One line for each target word; in the `left` columns its best source word is named, or given by its number."""
    drawn = []
    for word, row in zip(picture.target_words, picture.weights, strict=True):
        line = Text(fill(word, label) + "  ")
        for index in panel:
            line.append(*cell(row[index], width))
        best = int(row.argmax())
        number = str(best + 1)
        if best in panel and row[best] > 0:
            if left >= 12:
                line.append(f"  {cut(picture.source_words[best], left - 6)} {_number(row[best])}")
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


def cell_of(color: bool) -> Cell:
    """How a weight is written: on a shade of colour, or beside one of ░▒▓█."""
    return _coloured if color else _shaded


def _shaded(weight: float, width: int) -> tuple[str, Style]:
    shade = SHADES[0 if weight < FAINT else min(1 + int(weight * 4), 4)]
    if width < 4:
        return (shade * width if weight >= FAINT else fill(shade, width)), Style.null()
    return fill(f"{shade} {_number(weight)}", width), Style.null()


def _coloured(weight: float, width: int) -> tuple[str, Style]:
    text = _number(weight) if width >= 4 and weight >= 0.005 else ""
    return fill(text, width, "^"), _style(round(float(weight), 2))


@lru_cache(maxsize=128)
def _style(weight: float) -> Style:
    """Cells carry their own background, so that they look the same on light and on dark terminals."""
    text = DARK.paper if weight >= DEEP else DARK.text if weight >= FAINT else DARK.faint
    return Style(color=Color.from_rgb(*text), bgcolor=Color.from_rgb(*DARK.shade(weight)))


def _number(weight: float) -> str:
    """Three columns: `.87`, or `1.0`."""
    return "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:]
