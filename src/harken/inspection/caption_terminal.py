"""Maps over a picture as blocks of text, beside each other as far as they fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.color import Color
from rich.style import Style
from rich.text import Text

from harken.inspection.palette import DARK, FAINT
from harken.inspection.terminal import SHADES
from harken.inspection.words import fill

if TYPE_CHECKING:
    from harken.inspection.caption_map import CaptionMap

CELL = 2  # columns of a region, about as wide as a line is high
BETWEEN = 2


def lines(picture: CaptionMap, width: int, color: bool) -> list[Text]:
    """Rich lines of at most `width` columns; with colours the picture itself comes first."""
    rows, columns = picture.weights.shape[1:]
    panels = [(word, _map(strength, color)) for word, strength in zip(picture.words, picture.strengths, strict=True)]
    if color:
        panels.insert(0, ("", _coarse(picture.image, rows, columns)))
    across = max(1, (width + BETWEEN) // (columns * CELL + BETWEEN))
    drawn: list[Text] = []
    for start in range(0, len(panels), across):
        some = panels[start : start + across]
        if start:
            drawn.append(Text())
        gap = " " * BETWEEN
        drawn.append(Text(gap.join(fill(word, columns * CELL) for word, _ in some), style="bold" if color else ""))
        drawn += [Text(gap).join(panel[row] for _, panel in some) for row in range(rows)]
    return drawn


def _map(strength: np.ndarray, color: bool) -> list[Text]:
    return [Text.assemble(*(_cell(float(value), color) for value in row)) for row in strength]


def _cell(strength: float, color: bool) -> tuple[str, Style]:
    if color:
        return " " * CELL, Style(bgcolor=Color.from_rgb(*DARK.shade(round(strength, 2))))
    return SHADES[0 if strength < FAINT else min(1 + int(strength * 4), 4)] * CELL, Style.null()


def _coarse(image: np.ndarray, rows: int, columns: int) -> list[Text]:
    """The picture with one colour a region."""
    drawn = []
    for band in np.array_split(image.astype(np.float64), rows, axis=0):
        means = [part.mean((0, 1)) for part in np.array_split(band, columns, axis=1)]
        drawn.append(Text.assemble(*((" " * CELL, Style(bgcolor=Color.from_rgb(*mean))) for mean in means)))
    return drawn
