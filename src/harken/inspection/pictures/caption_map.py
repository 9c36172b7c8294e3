"""One map a word: where a captioner looked in an image while it wrote each word.

As in figures 2 and 3 of Xu et al. (2015), "Show, Attend and Tell": the image, then the image again for every word,
darkened where the word was not looking. `CaptionPage` puts several of them below each other.

>>> image = np.full((4, 4, 3), 200, np.uint8)
>>> picture = CaptionMap(image, ["red", "dot"], [[[0.9, 0.1], [0.0, 0.0]], [[0.0, 0.0], [0.2, 0.8]]])
>>> print(picture.to_terminal(width=40, color=False))
red   dot
██░░  ····
····  ▒▒██
An image is bright where the model
looked while it wrote the word above it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.figure.spec import Box, Figure, Images
from harken.inspection.pictures.checks import checked_weights
from harken.inspection.pictures.picture import Picture


class CaptionMap(Picture):
    """An image, the words written about it, and the weights of its regions for every word."""

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
        return [*above, *(figure for one in self.maps for figure in one.figures())]
