"""One map a word: where a captioner looked in a picture while it wrote each word.

As in figures 2 and 3 of Xu et al., 2015, "Show, Attend and Tell": the picture, then the picture again for every word,
darkened where the word was not looking. `CaptionPage` puts several of them under each other.

>>> image = np.full((4, 4, 3), 200, np.uint8)
>>> picture = CaptionMap(image, ["red", "dot"], [[[0.9, 0.1], [0.0, 0.0]], [[0.0, 0.0], [0.2, 0.8]]])
>>> print(picture.to_terminal(width=40, color=False))
red   dot
██░░  ····
····  ▒▒██
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.checks import checked_weights
from harken.inspection.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares of the picture


class CaptionMap(Picture):
    """A picture, the words written of it, and the weights of its regions for every word."""

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
            notes: lines below the picture.
            boxes: gold regions, drawn on the first picture.

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

    @property
    def strengths(self) -> np.ndarray:
        """The weights with the largest of every word as 1, for shading."""
        most = self.weights.max((1, 2), keepdims=True)
        return np.divide(self.weights, most, out=np.zeros_like(self.weights), where=most > 0)

    def lines(self, width: int, color: bool) -> list[Text]:
        """A grid of blocks for every word."""
        from harken.inspection.caption_terminal import lines

        return lines(self, width, color)

    def to_svg(self) -> str:
        return CaptionPage([self]).to_svg()

    def to_png(self) -> bytes:
        return CaptionPage([self]).to_png()

    def to_html(self) -> str:
        return CaptionPage([self]).to_html()


class CaptionPage(Picture):
    """Several maps under each other, with a heading."""

    ending = ".html"

    def __init__(self, maps: Sequence[CaptionMap], title: str = "", about: str = "") -> None:
        self.maps, self.title, self.about = list(maps), title, about

    @property
    def heading(self) -> str:
        """The title, or that of the first map."""
        return self.title or (self.maps[0].title if self.maps else "Captions")

    def lines(self, width: int, color: bool) -> list[Text]:
        """A blank line between maps."""
        from rich.text import Text

        drawn = [Text(line) for heading in (self.title, self.about) if heading for line in (heading, "")]
        for one in self.maps:
            drawn += [*(Text(line) for line in (one.title, *one.notes)), *one.lines(width, color), Text()]
        return drawn[:-1]

    def to_svg(self) -> str:
        from harken.inspection.caption_svg import draw_svg

        return draw_svg(self)

    def to_png(self) -> bytes:
        from harken.inspection.caption_png import draw_png

        return draw_png(self)

    def to_html(self) -> str:
        from harken.inspection.caption_html import draw_page

        return draw_page(self)
