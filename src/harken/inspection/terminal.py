"""What all pictures in a terminal share: lines as one string, and how a weight is written in a cell.

>>> [cell_of(color=False)(weight, 5)[0] for weight in (0.0, 0.3, 1.0)]
['· .00', '▒ .30', '█ 1.0']
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache

from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

from harken.inspection.palette import DARK, DEEP, FAINT
from harken.inspection.words import fill

SHADES = "·░▒▓█"
Cell = Callable[[float, int], tuple[str, Style]]  # weight, columns -> what to write, and how


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


def cell_of(color: bool) -> Cell:
    """How a weight is written: on a shade of colour, or beside one of ░▒▓█."""
    return _coloured if color else _shaded


def three_columns(weight: float) -> str:
    """`.87`, or `1.0`."""
    return "1.0" if weight >= 0.995 else f"{weight:.2f}"[1:]


def _shaded(weight: float, width: int) -> tuple[str, Style]:
    shade = SHADES[0 if weight < FAINT else min(1 + int(weight * 4), 4)]
    if width < 4:
        return (shade * width if weight >= FAINT else fill(shade, width)), Style.null()
    return fill(f"{shade} {three_columns(weight)}", width), Style.null()


def _coloured(weight: float, width: int) -> tuple[str, Style]:
    text = three_columns(weight) if width >= 4 and weight >= 0.005 else ""
    return fill(text, width, "^"), _style(round(float(weight), 2))


@lru_cache(maxsize=128)
def _style(weight: float) -> Style:
    """Cells carry their own background, so that they look the same on light and on dark terminals."""
    text = DARK.paper if weight >= DEEP else DARK.text if weight >= FAINT else DARK.faint
    return Style(color=Color.from_rgb(*text), bgcolor=Color.from_rgb(*DARK.shade(weight)))
