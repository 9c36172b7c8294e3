"""What a model went by in a text: its words across, one row of shades with the label it chose.

>>> picture = WordWeights(["not", "good"], [0.5, 1.0], "negative 0.97", "Attention")
>>> print(picture.to_terminal(width=60, color=False))
Attention; the largest is 1
               not   good
negative 0.97  ▓ .50 █ 1.0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.inspection.alignment import AlignmentMap
from harken.inspection.picture import Picture


class WordWeights(Picture):
    """Weights from 0 to 1, one a word."""

    def __init__(self, words: Sequence[str], weights: npt.ArrayLike, label: str, title: str = "Attention") -> None:
        """
        Raises:
            UserError: weights that do not fit the words, or are no weights.
        """
        self.map = AlignmentMap(words, [label], np.asarray(weights)[None], f"{title}; the largest is 1")
        self.weights = self.map.weights[0]

    def to_terminal(self, width: int | None = None, color: bool | None = None) -> str:
        """Lines of text."""
        return self.map.to_terminal(width, color)

    def to_svg(self) -> str:
        """A drawing."""
        return self.map.to_svg()

    def to_png(self) -> bytes:
        """A picture of dots."""
        return self.map.to_png()

    def to_html(self) -> str:
        """A page: point at a word to read its weight."""
        return self.map.to_html()
