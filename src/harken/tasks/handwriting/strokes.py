"""The results of handwriting synthesis: the points of a pen, ready to be drawn or kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.data.strokes.drawing import Drawing, split_strokes
from harken.errors import UserError
from harken.tasks.results import Printing, Result

if TYPE_CHECKING:
    from harken.inspection.pictures.drawings import InkPicture
    from harken.inspection.pictures.tables import AlignmentMap


@dataclass
class Strokes:
    """One drawing.

    >>> line = Strokes(np.array([[0, 0, 0], [3, 4, 1]]), "l")
    >>> line.to_json()
    {'text': 'l', 'strokes': [[[0.0, 0.0], [3.0, 4.0]]], 'finished': True}
    """

    points: np.ndarray = field(repr=False)  # (T, 3) dx, dy, lifted, in the units of the training data
    text: str | None = None
    window: np.ndarray | None = field(default=None, repr=False)  # (T, U) what each point saw of the text and its end
    finished: bool = True  # False: cut off at sampling.max_points

    def strokes(self) -> list[np.ndarray]:
        """Each stroke as places (points, 2) on the paper, y downwards."""
        return split_strokes(self.points)

    def drawing(self) -> Drawing:
        """Convert to a drawing, as the readers of files give it."""
        return Drawing(np.asarray(self.points, dtype=np.float32), self.text)

    def picture(self) -> InkPicture:
        """Draw a picture, to print, or to save as .svg, .png or .html."""
        from harken.inspection.pictures.drawings import InkPicture

        return InkPicture([self.strokes()], [self.text or ""])

    def to_svg(self) -> str:
        """The drawing of `picture`."""
        return self.picture().to_svg()

    def save(self, path: str | Path) -> Path:
        """Write the picture: .svg, .png or .html."""
        return self.picture().save(path)

    def to_json(self) -> dict[str, Any]:
        """Plain values; a file with a line of these can be trained on."""
        strokes = [np.round(stroke, 3).tolist() for stroke in self.strokes()]
        return {"text": self.text, "strokes": strokes, "finished": self.finished}

    def window_picture(self, columns: int = 48) -> AlignmentMap:
        """The characters that were looked at while writing: characters downwards, points of the pen across.

        Args:
            columns: points that follow each other are put together until there are no more than this many.

        Raises:
            UserError: the model reads no text.
        """
        if self.window is None or self.text is None:
            raise UserError(
                "this model reads no text, so it has no window to show; train one with model.window above 0"
            )
        from harken.inspection.pictures.tables import AlignmentMap

        shares = self.window / np.maximum(self.window.sum(1, keepdims=True), 1e-9)  # (T, U)
        together = -(-len(shares) // columns)
        starts = range(0, len(shares), together)
        cells = np.stack([shares[start : start + together].mean(0) for start in starts])
        names = [{" ": "␣"}.get(character, character) for character in " ".join(self.text.split())] + ["end"]
        times = [f"{start + 1}" for start in starts]
        return AlignmentMap(times, names, cells.T, f"The window while writing “{self.text}”, point by point")

    def _repr_html_(self) -> str:
        return self.picture()._repr_html_()


@dataclass(frozen=True)
class Drawings(Result):
    """Several drawings of one text."""

    drawings: list[Strokes]
    max_points: int

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """A note on the number of drawings that were cut off."""
        unfinished = sum(not drawing.finished for drawing in self.drawings)
        count = len(self.drawings)
        note = f"{unfinished} of {count} had no end after {self.max_points} points and were cut off"
        return [note] if unfinished else []

    def picture(self) -> InkPicture:
        """All of them."""
        from harken.inspection.pictures.drawings import InkPicture

        return InkPicture(
            [drawing.strokes() for drawing in self.drawings], [drawing.text or "" for drawing in self.drawings]
        )

    def to_json(self, options: Any) -> dict[str, Any]:
        return self.drawings[0].to_json()

    def to_records(self, options: Any) -> list[dict[str, Any]]:
        return [drawing.to_json() for drawing in self.drawings]

    def to_text(self, options: Any, printing: Printing) -> str:
        return self.picture().to_terminal()
