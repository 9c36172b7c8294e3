r"""Figures as lines of text for a terminal, by rich: shades and signs, with colours where the terminal has them.

>>> from harken.inspection.figure.spec import Bars, Figure, Group
>>> bars = Bars("", "", "loss", ["RNN", "LSTM"], [Group("", [2.0, 1.0])])
>>> print(*(line.plain.rstrip() for line in draw_lines([Figure("", [bars])], 24, color=False)), sep="\n")
loss
RNN   ███████████████  2
LSTM  ███████▌         1
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from harken.inspection.figure.spec import Bars, Figure, Heat, Images, Lines, Raster, Strips, Strokes, Tokens
from harken.inspection.figure.terminal import charts, media, tables
from harken.inspection.figure.text import wrap
from harken.inspection.figure.tree import Tree

RENDERERS: dict[type, Callable[..., list[Text]]] = {
    Lines: charts.draw_lines,
    Bars: charts.draw_bars,
    Tokens: charts.draw_tokens,
    Heat: tables.draw_heat,
    Tree: tables.draw_tree,
    Images: media.draw_images,
    Strokes: media.draw_strokes,
    Raster: media.draw_raster,
    Strips: media.draw_strips,
}


def as_text(lines: Callable[[int, bool], list[Text]], width: int | None = None, color: bool | None = None) -> str:
    """Join the lines of `lines(width, color)` to one string; both are the terminal's where they are not given."""
    terminal = Console()
    if color is None:
        color = terminal.is_terminal and terminal.color_system is not None and not terminal.no_color
    drawn = lines(width or terminal.width, color)
    if not color:
        return "\n".join(line.plain.rstrip() for line in drawn)
    file, system = io.StringIO(), terminal.color_system or "truecolor"
    writer = Console(file=file, force_terminal=True, color_system=system, width=10_000, no_color=False)  # type: ignore[arg-type]
    writer.print(*drawn, sep="\n", end="", no_wrap=True)
    return file.getvalue()


def draw_lines(figures: Sequence[Figure], width: int, color: bool) -> list[Text]:
    """Lines of at most `width` columns: titles, panels one below the other, notes."""
    drawn: list[Text] = []
    for figure in figures:
        drawn += [Text()] if drawn else []
        drawn += _titles(figure.title, width, color)
        for number, panel in enumerate(figure.panels):
            drawn += [Text()] if number else []
            drawn += _titles(panel.title if panel.title != figure.title else "", width, color)
            drawn += RENDERERS[type(panel)](panel, width, color)
        drawn += [Text(line, style="dim" if color else "") for line in wrap(figure.note, width) if figure.note]
    return drawn


def _titles(title: str, width: int, color: bool) -> list[Text]:
    return [Text(line, style="bold" if color else "") for line in wrap(title, width)] if title else []
