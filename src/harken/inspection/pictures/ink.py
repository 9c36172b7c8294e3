"""Pen strokes: one drawing, or several in a grid, each with its caption.

In a terminal strokes are drawn with Braille patterns, eight dots a character. In SVG every stroke is a path of its own,
so that a plotter or a drawing program can use it.

>>> picture = InkPicture([[np.array([[0, 0], [4, 0]]), np.array([[2, 0], [2, 6]])]], ["t"])
>>> print(picture.to_terminal(width=3))
⠉⡏⠉
 ⡇
 ⠁
t
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.errors import UserError
from harken.inspection.figure.spec import Figure, Strokes
from harken.inspection.pictures.picture import Picture


class InkPicture(Picture):
    """Drawings, each a list of strokes (points, 2) with y downwards."""

    def __init__(self, drawings: Sequence[Sequence[np.ndarray]], captions: Sequence[str] | None = None) -> None:
        """
        Raises:
            UserError: captions that do not fit, or points that are not finite.
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
        named = list(dict.fromkeys(caption for caption in self.captions if caption))
        return f"Handwriting: {', '.join(named)}" if named else f"{len(self.drawings)} drawings"

    def figures(self) -> list[Figure]:
        texts = set(self.captions)
        if len(self.captions) > 1 and len(texts) == 1 and texts != {""}:  # one text in several hands
            return [
                Figure(f"“{self.captions[0]}”, {len(self.captions)} times", [self._panel([""] * len(self.captions))])
            ]
        return [Figure("", [self._panel(self.captions)])]

    def paper_figures(self) -> list[Figure]:
        return self.figures()  # the ink says what it is

    def terminal_figures(self) -> list[Figure]:
        return [Figure("", [self._panel(self.captions)])]

    def _panel(self, captions: Sequence[str]) -> Strokes:
        return Strokes("", self.drawings, captions)
