"""Pen strokes to look at: one drawing, or several in a grid, each with its caption.

In a terminal strokes are drawn with Braille patterns, eight dots a character. In SVG a stroke is a path of its own, so
that a plotter or a drawing program can take it up.

>>> picture = InkPicture([[np.array([[0, 0], [4, 0]]), np.array([[2, 0], [2, 6]])]], ["t"])
>>> print(picture.to_terminal(width=3))
⠉⡏⠉
 ⡇
 ⠁
t
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from harken.errors import UserError
from harken.inspection.page import text
from harken.inspection.palette import LIGHT, Palette, css
from harken.inspection.picture import Picture
from harken.inspection.svg import Rule, svg
from harken.inspection.words import printable

if TYPE_CHECKING:
    from rich.text import Text

DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a Braille pattern: row, column
TALLEST = 12  # lines of a drawing in a terminal
HEIGHT, WIDEST = 110.0, 860.0  # pixels of a drawing in SVG
MARGIN, CAPTION, GAP = 24.0, 22.0, 26.0

Place = tuple[list[np.ndarray], float, float, str]  # strokes on the sheet, where the caption stands, and what it says


class InkPicture(Picture):
    """Drawings, each a list of strokes (points, 2) with y downwards."""

    def __init__(self, drawings: Sequence[Sequence[np.ndarray]], captions: Sequence[str] | None = None) -> None:
        """
        Raises:
            UserError: captions that do not fit, or points that are no numbers.
        """
        self.drawings = [[np.asarray(stroke, dtype=np.float64) for stroke in strokes] for strokes in drawings]
        self.captions = [""] * len(self.drawings) if captions is None else [str(caption) for caption in captions]
        if len(self.captions) != len(self.drawings):
            raise UserError(f"{len(self.captions)} captions do not fit {len(self.drawings)} drawings; give one each")
        if not all(np.isfinite(stroke).all() for strokes in self.drawings for stroke in strokes):
            raise UserError("a stroke has a point that is not a finite number; the model may have diverged")

    @property
    def heading(self) -> str:
        """What was written."""
        named = [caption for caption in self.captions if caption]
        return f"Handwriting: {', '.join(named)}" if named else f"{len(self.drawings)} drawings"

    def lines(self, width: int, color: bool) -> list[Text]:
        """Braille dots, drawings below each other."""
        from rich.text import Text

        drawn: list[str] = []
        for strokes, caption in zip(self.drawings, self.captions, strict=True):
            drawn += [*([""] if drawn else []), *_braille(strokes, width), *([printable(caption)] if caption else [])]
        return [Text(line) for line in drawn]

    def to_svg(self) -> str:
        """One path a stroke."""
        places, width, height = self._sheet()
        parts = []
        for strokes, x, y, caption in places:
            parts += [f'<path d="{_path(stroke)}"/>' for stroke in strokes]
            parts += [f'<text class="muted" x="{x:.1f}" y="{y:.1f}">{text(caption)}</text>'] if caption else []
        looks = {
            "path": "fill:none;stroke-width:2;stroke-linecap:round;stroke-linejoin:round",
            "text": "font-size:13px",
        }
        return svg("ink", "", width, height, parts, looks, _colours, label=self.heading)

    def to_png(self) -> bytes:
        """Drawn by matplotlib without a screen."""
        from harken.inspection.png import MUTED, encode, sheet

        places, width, height = self._sheet()
        figure = sheet(width / 96, height / 96)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        for strokes, x, y, caption in places:
            for stroke in strokes:
                look = {"color": css(LIGHT.ink), "linewidth": 1.5, "solid_capstyle": "round"}
                shown = np.concatenate([stroke, stroke + np.array([0.01, 0.0])]) if len(stroke) == 1 else stroke
                axes.plot(shown[:, 0], shown[:, 1], **look)  # type: ignore[arg-type]
            axes.text(x, y, caption, fontsize=9, **MUTED)
        return encode(figure)

    def _sheet(self) -> tuple[list[Place], float, float]:
        """All drawings on one sheet: (places, width, height). All have one scale; a row is filled before the next."""
        boxes = [_box(strokes) for strokes in self.drawings]
        tallest = max((box[3] - box[1] for box in boxes), default=1.0)
        widest = max((box[2] - box[0] for box in boxes), default=1.0)
        scale = min(HEIGHT / max(tallest, 1e-9), WIDEST / max(widest, 1e-9))
        down = tallest * scale + (CAPTION if any(self.captions) else 0) + GAP
        places: list[Place] = []
        x, y, right = MARGIN, MARGIN, MARGIN
        for strokes, caption, (left, top, end, bottom) in zip(self.drawings, self.captions, boxes, strict=True):
            wide = max((end - left) * scale, 7.5 * len(caption), 20.0)
            if x > MARGIN and x + wide > MARGIN + WIDEST:
                x, y = MARGIN, y + down
            lower = y + (tallest - (bottom - top)) * scale / 2  # drawings stand in the middle of their row
            moved = [(stroke - [left, top]) * scale + [x, lower] for stroke in strokes]
            places.append((moved, x, y + tallest * scale + CAPTION, caption))
            right = max(right, x + wide)
            x += wide + GAP
        return places, right + MARGIN, y + down - GAP + MARGIN


def _box(strokes: Sequence[np.ndarray]) -> tuple[float, float, float, float]:
    """Left, top, right, bottom."""
    if not strokes:
        return 0.0, 0.0, 1.0, 1.0
    places = np.concatenate(list(strokes))
    return (*places.min(0).tolist(), *places.max(0).tolist())


def _path(stroke: np.ndarray) -> str:
    """A dot is a line of no length, which round ends make visible."""
    places = np.vstack([stroke, stroke]) if len(stroke) == 1 else stroke
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _braille(strokes: Sequence[np.ndarray], columns: int) -> list[str]:
    left, top, right, bottom = _box(strokes)
    scale = min(2 * columns / max(right - left, 1e-9), 4 * TALLEST / max(bottom - top, 1e-9)) * 0.999
    rows, width = int((bottom - top) * scale) // 4 + 1, int((right - left) * scale) // 2 + 1
    cells = np.zeros((rows, width), dtype=int)
    for stroke in strokes:
        for x, y in _dots((stroke - [left, top]) * scale):
            cells[y // 4, x // 2] |= DOTS[y % 4][x % 2]
    return ["".join(chr(0x2800 + cell) if cell else " " for cell in row) for row in cells]


def _dots(stroke: np.ndarray) -> np.ndarray:
    """Whole places along a stroke, none left out between two of its points."""
    parts = [stroke[:1]]
    for start, end in pairwise(stroke):
        count = int(np.abs(end - start).max()) + 1
        parts.append(start + (end - start) * (np.arange(1, count + 1) / count)[:, None])
    return np.floor(np.concatenate(parts) + 1e-9).astype(int)


def _colours(palette: Palette) -> list[Rule]:
    return [("path", "stroke", palette.ink)]
