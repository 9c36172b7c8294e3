"""What `caption` gives back: a text, how sure the model is, and where it looked for every word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from harken.errors import UserError
from harken.tasks.results import Printing, Result

if TYPE_CHECKING:
    from harken.inspection.pictures.drawings import CaptionMap


@dataclass
class Caption(Result):
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

    @property
    def notes(self) -> list[str]:  # type: ignore[override]
        """What was done to the picture, for the user of a command."""
        return [f"{self.name}: {self.note}"] if self.note else []

    def figure(self) -> CaptionMap:
        return self.picture

    def to_json(self, options: Any) -> dict[str, Any]:
        maps = None if self.attention is None else self.attention.round(4).tolist()
        values = {"image": self.name, "text": self.text, "score": round(self.score, 4), "words": self.words}
        return {**values, "attention": maps, "note": self.note}

    def to_text(self, options: Any, printing: Printing) -> str:
        text = self.text if printing.is_single else f"{self.name}\t{self.text}"
        if printing.is_terminal and self.attention is not None and self.words:
            return f"{text}\n\n{self.picture.to_terminal()}\n"
        return text

    def __str__(self) -> str:
        return self.text
