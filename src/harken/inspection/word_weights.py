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

from harken.inspection.shades import ShadeTable


class WordWeights(ShadeTable):
    """Rows of weights from 0 to 1, one a word."""

    def __init__(self, words: Sequence[str], rows: Mapping[str, npt.ArrayLike], title: str) -> None:
        """
        Raises:
            UserError: weights that do not fit the words, or are no weights.
        """
        weights = np.stack([np.asarray(row, dtype=np.float64) for row in rows.values()])
        heading = f"{title}; the largest of a row is 1" if len(rows) > 1 else f"{title}; the largest is 1"
        super().__init__(words, list(rows), weights, heading, across="word")
