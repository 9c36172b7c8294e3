"""What a model went by in a text: its words across, a row of shades for each way to ask.

>>> picture = WordWeights(["not", "good"], {"attention": [0.5, 1.0], "gradient": [1.0, 0.2]}, "negative 0.97")
>>> print(picture.to_terminal(width=60, color=False))
negative 0.97; the largest of a row is 1
           not   good
attention  ▓ .50 █ 1.0
gradient   █ 1.0 ░ .20
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harken.inspection.alignment import AlignmentMap
from harken.inspection.picture import Picture


class WordWeights(Picture):
    """Rows of weights from 0 to 1, one a word."""

    def __init__(self, words: Sequence[str], rows: Mapping[str, npt.ArrayLike], title: str) -> None:
        """
        Raises:
            UserError: weights that do not fit the words, or are no weights.
        """
        self.rows = {name: np.asarray(weights, dtype=np.float64) for name, weights in rows.items()}
        heading = f"{title}; the largest of a row is 1" if len(self.rows) > 1 else f"{title}; the largest is 1"
        self.map = AlignmentMap(words, list(self.rows), np.stack(list(self.rows.values())), heading)

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
