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
from harken.inspection.shades import ShadeTable


class ConfusionMatrix(ShadeTable):
    """Counts (K, K), a row for each true label."""

    def __init__(self, counts: npt.ArrayLike, labels: Sequence[str], title: str | None = None) -> None:
        """
        Raises:
            UserError: counts that do not fit the labels.
        """
        self.counts, self.labels = np.asarray(counts, dtype=np.int64), [str(label) for label in labels]
        if self.counts.shape != (len(self.labels), len(self.labels)):
            raise UserError(
                f"the counts are {self.counts.shape}, but there are {len(self.labels)} labels; give a square"
            )
        shares = self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)  # of labels that do not occur: 0
        title = title or "Confusion: true labels down, said across"
        super().__init__(self.labels, self.labels, shares, title, across="said label", down="true label")

    @property
    def shares(self) -> np.ndarray:
        """Counts by the sum of their row."""
        return self.weights
