"""The spectrogram and its symbols as a PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harken.inspection.palette import LIGHT, css
from harken.inspection.png import INK, WORDS, bare, encode, sheet
from harken.inspection.words import cut

if TYPE_CHECKING:
    from harken.inspection.spectrogram import SpectrogramPicture

WIDE, TALL, HIGH = 9.0, 2.4, 0.36  # inches of the drawing, of the sound and of a symbol's row
LEFT, RIGHT, TOP, AXIS = 0.9, 0.3, 0.85, 0.4


def draw_png(picture: SpectrogramPicture) -> bytes:
    """The bytes of a PNG file."""
    from harken.inspection.spectrogram import visible

    height = TOP + TALL + AXIS + HIGH * len(picture.rows) + 0.15
    inside = WIDE - LEFT - RIGHT
    figure = sheet(WIDE, height)
    place = (LEFT / WIDE, 1 - (TOP + TALL) / height, inside / WIDE, TALL / height)
    axes = figure.add_axes(place)
    until = picture.shades.shape[1] * picture.frame_seconds
    extent = (0, until, 0, len(picture.shades))
    axes.imshow(picture.shades, cmap=INK, vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent)
    axes.set(xlim=(0, picture.seconds), yticks=[])
    axes.set_xticks(picture.ticks(), [f"{tick:g} s" for tick in picture.ticks()], fontsize=9, **WORDS)
    bare(axes)
    for one in picture.said:
        middle = (one.start + one.end) / 2
        axes.text(
            middle, len(picture.shades) * 1.02, visible(one.name), ha="center", fontsize=11, weight="bold", **WORDS
        )
    for number, row in enumerate(picture.rows):
        bottom = 1 - (TOP + TALL + AXIS + HIGH * (number + 1) - 0.05) / height
        below = figure.add_axes((LEFT / WIDE, bottom, inside / WIDE, (HIGH - 0.06) / height))
        below.set(xlim=(0, picture.seconds), ylim=(0, 1), xticks=[], facecolor=css(LIGHT.empty))
        below.set_yticks([0.5], [cut(row.name, 12)], fontsize=11, **WORDS)
        bare(below)
        times = (np.arange(len(row.chances)) + 0.5) * picture.step_seconds
        blank = row is picture.rows[-1]
        below.fill_between(times, row.chances, color=css(LIGHT.faint if blank else LIGHT.ink), linewidth=0)
    return encode(figure, picture.title)
