"""The spectrogram and its symbols as a PNG, drawn by matplotlib without a screen and without its global state."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from harken.inspection.figure import FONT
from harken.inspection.palette import LIGHT, css
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
    figure = Figure(figsize=(WIDE, height), dpi=150, facecolor=css(LIGHT.paper))
    canvas = FigureCanvasAgg(figure)
    text: dict[str, Any] = {"family": FONT, "parse_math": False, "color": css(LIGHT.text)}
    title = cut(picture.title, 70)
    figure.text(0.25 / WIDE, 1 - 0.38 / height, title, fontsize=14, weight="bold", **text)
    place = (LEFT / WIDE, 1 - (TOP + TALL) / height, inside / WIDE, TALL / height)
    axes = figure.add_axes(place)
    colours = LinearSegmentedColormap.from_list("harken", [css(LIGHT.empty), css(LIGHT.ink)])
    until = picture.shades.shape[1] * picture.frame_seconds
    extent = (0, until, 0, len(picture.shades))
    axes.imshow(picture.shades, cmap=colours, vmin=0, vmax=1, aspect="auto", origin="lower", extent=extent)
    axes.set(xlim=(0, picture.seconds), yticks=[])
    axes.set_xticks(picture.ticks(), [f"{tick:g} s" for tick in picture.ticks()], fontsize=9, **text)
    axes.tick_params(length=0)
    for one in picture.said:
        middle = (one.start + one.end) / 2
        axes.text(
            middle, len(picture.shades) * 1.02, visible(one.name), ha="center", fontsize=11, weight="bold", **text
        )
    frames = [axes]
    for number, row in enumerate(picture.rows):
        bottom = 1 - (TOP + TALL + AXIS + HIGH * (number + 1) - 0.05) / height
        below = figure.add_axes((LEFT / WIDE, bottom, inside / WIDE, (HIGH - 0.06) / height))
        below.set(xlim=(0, picture.seconds), ylim=(0, 1), xticks=[], facecolor=css(LIGHT.empty))
        below.set_yticks([0.5], [cut(row.name, 12)], fontsize=11, **text)
        below.tick_params(length=0)
        times = (np.arange(len(row.chances)) + 0.5) * picture.step_seconds
        blank = row is picture.rows[-1]
        below.fill_between(times, row.chances, color=css(LIGHT.faint if blank else LIGHT.ink), linewidth=0)
        frames.append(below)
    for frame in frames:
        for spine in frame.spines.values():
            spine.set_visible(False)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a letter the font lacks is drawn as a box
        canvas.print_png(file)
    return file.getvalue()
