"""What `caption` gives back: a text, how sure the model is, and where it looked for every word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harken.errors import UserError

if TYPE_CHECKING:
    from harken.inspection.pictures.drawings import CaptionMap


@dataclass
class Caption:
    """One caption of one picture."""

    text: str
    score: float  # log-probability, normalised by length as the search ranks it
    attention: np.ndarray | None  # (T, rows, columns) for the words of the text; each map sums to 1
    image: np.ndarray = field(repr=False)  # (Y, X, 3) as the model saw it
    note: str = ""  # what was done to the picture before, such as cropping
    name: str = ""  # of the picture's file

    @property
    def words(self) -> list[str]:
        """The whitespace words that `attention` has a map for."""
        return self.text.split()

    @property
    def picture(self) -> CaptionMap:
        """The picture, darkened for every word where it did not look.

        Raises:
            UserError: the model does not attend, or wrote nothing.
        """
        from harken.inspection.pictures.drawings import CaptionMap

        if self.attention is None:
            raise UserError("this captioner has no attention to show; train one that attends, such as scenes-caption")
        if not self.words:
            raise UserError(f"the model writes no word for {self.name or 'the picture'}, so no map; train it longer")
        return CaptionMap(self.image, self.words, self.attention, self.text, [self.note] if self.note else [])

    def __str__(self) -> str:
        return self.text
