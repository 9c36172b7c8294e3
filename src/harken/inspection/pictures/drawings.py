"""Pictures of images and of ink: where a captioner looked, and pen strokes.

>>> image = np.full((4, 4, 3), 200, np.uint8)
>>> picture = CaptionMap(image, ["red", "dot"], [[[0.9, 0.1], [0.0, 0.0]], [[0.0, 0.0], [0.2, 0.8]]])
>>> print(picture.to_terminal(width=40, color=False))
red   dot
██░░  ····
····  ▒▒██
An image is bright where the model
looked while it wrote the word above it.
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
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Box, Figure, Images, Strokes
from harken.inspection.pictures.inputs import checked_weights
from harken.inspection.pictures.picture import Picture


class CaptionMap(Picture):
    """One map a word: where a captioner looked in an image while it wrote each word.

    As in figures 2 and 3 of Xu et al. (2015), "Show, Attend and Tell": the image, then the image again for every word,
    darkened where the word was not looking.
    """

    caption = "An image is bright where the model looked while it wrote the word above it."

    def __init__(
        self,
        image: np.ndarray,
        words: Sequence[str],
        weights: npt.ArrayLike,
        title: str | None = None,
        notes: Sequence[str] = (),
        boxes: Sequence[Box] = (),
    ) -> None:
        """
        Args:
            image: (Y, X, 3) bytes.
            weights: (words, rows, columns), each from 0 to 1.
            notes: lines below the title.
            boxes: reference regions, drawn on the first image.

        Raises:
            UserError: weights that do not fit the words, or are no weights.
        """
        array = np.asarray(weights, dtype=np.float64)
        self.image, self.words = image, [str(word) for word in words]
        if array.ndim != 3 or 0 in array.shape[1:]:
            raise UserError(f"The attention has shape {array.shape}; pass words x rows x columns.")
        self.weights = checked_weights(array, (len(self.words), *array.shape[1:]), "words x rows x columns")
        self.title = title or " ".join(self.words)
        self.notes, self.boxes = list(notes), list(boxes)

    def figures(self) -> list[Figure]:
        return [Figure(self.title, [Images("", self.notes, self.image, self.words, self.weights, self.boxes)])]

    def terminal_figures(self) -> list[Figure]:
        return [Figure("", figure.panels) for figure in self.figures()]


class CaptionPage(Picture):
    """Several maps below each other, with a heading."""

    caption = CaptionMap.caption

    ending = ".html"

    def __init__(self, maps: Sequence[CaptionMap], title: str = "", about: str = "") -> None:
        self.maps, self.title, self.about = list(maps), title, about

    @property
    def heading(self) -> str:
        """The title, or that of the first map."""
        return self.title or (self.maps[0].title if self.maps else "Captions")

    def figures(self) -> list[Figure]:
        above = [Figure(self.title, [], self.about)] if self.title or self.about else []
        return [*above, *(figure for picture in self.maps for figure in picture.figures())]


class InkPicture(Picture):
    """Pen strokes: drawings in a grid, each a list of strokes (points, 2) with y downwards, with its caption.

    In a terminal strokes are drawn with Braille patterns, eight dots a character. In SVG every stroke is a path of its
    own, so that a plotter or a drawing program can use it.
    """

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
        """The texts that were written."""
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
