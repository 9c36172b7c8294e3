"""Maps over pictures as a PNG."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from harken.inspection.caption_svg import ACROSS, LETTERS, VEIL
from harken.inspection.png import WORDS, encode, sheet
from harken.inspection.words import cut

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionMap, CaptionPage

SIDE, GAP, LABEL, LINE = 1.05, 0.1, 0.22, 0.22  # inches


def draw_png(page: CaptionPage) -> bytes:
    """The bytes of a PNG file."""
    heights = [_height(one) for one in page.maps]
    heading = [line for line in (page.title, page.about) if line]
    width, height = 0.4 + ACROSS * (SIDE + GAP), 0.3 + len(heading) * 0.3 + sum(heights)
    figure = sheet(width, height)
    top = height - 0.1
    for line in heading:
        top -= 0.3
        figure.text(0.2 / width, top / height, cut(line, 110), fontsize=11, weight="bold", **WORDS)
    for one, high in zip(page.maps, heights, strict=True):
        _draw(figure, one, top)
        top -= high
    return encode(figure)


def _height(picture: CaptionMap) -> float:
    return 0.4 + LINE * len(picture.notes) + -(-(len(picture.words) + 1) // ACROSS) * (SIDE + LABEL + GAP)


def _draw(figure: Figure, picture: CaptionMap, top: float) -> None:
    """One picture with its maps, downwards from `top` inches."""
    width, height = figure.get_size_inches()
    figure.text(0.2 / width, (top - 0.24) / height, cut(picture.title, 100), fontsize=10, weight="bold", **WORDS)
    top -= 0.3
    for note in picture.notes:
        top -= LINE
        figure.text(0.2 / width, (top + 0.04) / height, cut(note, 120), fontsize=7.5, **WORDS)
    for index in range(len(picture.words) + 1):
        row, column = divmod(index, ACROSS)
        left, bottom = 0.2 + column * (SIDE + GAP), top - (row + 1) * (SIDE + LABEL) - row * GAP
        axes = figure.add_axes((left / width, bottom / height, SIDE / width, SIDE / height))
        axes.set_axis_off()
        axes.imshow(picture.image, extent=(0, 1, 1, 0), interpolation="nearest")
        if index == 0:
            for x, y, right, low in picture.boxes:
                axes.add_patch(Rectangle((x, y), right - x, low - y, fill=False, color="white", ls="--", lw=1))
            continue
        veil = np.zeros((*picture.weights.shape[1:], 4))
        veil[:, :, 3] = VEIL * (1 - picture.strengths[index - 1])
        axes.imshow(veil, extent=(0, 1, 1, 0), interpolation="nearest")
        axes.set_title(cut(picture.words[index - 1], LETTERS), fontsize=8, loc="left", pad=2, **WORDS)
