"""The spectrogram and its symbols as lines of text; with colours every line of sound holds two bands (half blocks)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.palette import DARK
from harken.inspection.words import columns, cut, fill

if TYPE_CHECKING:
    from harken.inspection.spectrogram import SpectrogramPicture

LINES = 12  # of sound
WIDEST = 150  # columns, however wide the terminal is
SHADES = " ░▒▓█"


def lines(picture: SpectrogramPicture, width: int, color: bool) -> list[Text]:
    """All of it in at most `width` columns."""
    label = max(2, min(10, max(columns(row.name) for row in picture.rows))) + 1
    room = max(4, min(WIDEST, width) - label)
    drawn = [Text(cut(picture.title, width), style="bold" if color else "")]
    shades = picture.sampled(2 * LINES if color else LINES, room)[::-1]  # the highest band on top
    if color:
        for upper, lower in zip(shades[0::2], shades[1::2], strict=False):
            line = Text(" " * label)
            for above, below in zip(upper, lower, strict=True):
                line.append("▀", Style(color=_colour(above), bgcolor=_colour(below)))
            drawn.append(line)
    else:
        drawn += [Text(" " * label + "".join(_shade(value) for value in band)) for band in shades]
    drawn.append(Text(" " * label + _axis(picture, room), style="dim" if color else ""))
    for row in picture.rows:
        line = Text(fill(row.name, label), style="bold" if color else "")
        for chance in picture.chances_at(row, room):
            line.append(" " if color else _shade(chance), Style(bgcolor=_colour(chance)) if color else None)
        drawn.append(line)
    return drawn


def _axis(picture: SpectrogramPicture, room: int) -> str:
    axis = [" "] * room
    for tick in picture.ticks():
        place, name = int(tick / picture.seconds * room), f"{tick:g}s"
        if place + len(name) <= room:
            axis[place : place + len(name)] = name
    return "".join(axis)


def _shade(value: float) -> str:
    return SHADES[min(round(float(value) * 4), 4)]


def _colour(value: float) -> Color:
    return Color.from_rgb(*DARK.shade(round(float(value), 2)))
