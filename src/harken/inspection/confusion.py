"""Which label is taken for which: true labels down, what was said across, the shade is the share of the row.

>>> picture = ConfusionMatrix([[9, 1], [2, 8]], ["no", "yes"])
>>> print(picture.to_terminal(width=40, color=False))
Confusion: true labels down, said across
     no    yes
no   █ .90 ░ .10
yes  ░ .20 █ .80
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError
from harken.inspection.alignment import AlignmentMap
from harken.inspection.picture import Picture


class ConfusionMatrix(Picture):
    """Counts (K, K), a row for each true label."""

    def __init__(self, counts: npt.ArrayLike, labels: Sequence[str], title: str | None = None) -> None:
        """
        Raises:
            UserError: counts that do not fit the labels.
        """
        self.counts = np.asarray(counts, dtype=np.int64)
        self.labels = [str(label) for label in labels]
        if self.counts.shape != (len(self.labels), len(self.labels)):
            raise UserError(
                f"the counts are {self.counts.shape}, but there are {len(self.labels)} labels; give a square"
            )
        self.title = title or "Confusion: true labels down, said across"

    @property
    def shares(self) -> np.ndarray:
        """Counts by the sum of their row; rows of labels that do not occur are 0."""
        shares: np.ndarray = self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)
        return shares

    @property
    def map(self) -> AlignmentMap:
        """The same as a map of shades."""
        return AlignmentMap(self.labels, self.labels, self.shares, self.title)

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
        """A page: point at a cell to read its labels and share."""
        return self.map.to_html()
