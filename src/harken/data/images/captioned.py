"""Pictures with their captions, as every corpus of them is read.

>>> example = Captioned(np.zeros((4, 4, 3), np.uint8), ["a red dot"], (Region("red dot", (0.0, 0.0, 0.5, 0.5)),))
>>> example.regions[0].noun, example.regions[0].holds(0.25, 0.75)
('dot', False)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harken.data.splits import Parts

Box = tuple[float, float, float, float]  # left, top, right, bottom, as shares of the picture's width and height


@dataclass(frozen=True)
class Region:
    """The position of the thing that a phrase of a caption names."""

    phrase: str  # "small red circle"
    box: Box

    @property
    def noun(self) -> str:
        """The last word of the phrase."""
        return self.phrase.split()[-1]

    def holds(self, x: float, y: float) -> bool:
        """Whether a place, in shares of the picture, lies in the box."""
        left, top, right, bottom = self.box
        return left <= x <= right and top <= y <= bottom


@dataclass(frozen=True)
class Captioned:
    """One picture and what people, or a grammar, say of it."""

    image: np.ndarray = field(repr=False)  # (Y, X, 3) uint8
    captions: list[str]  # to learn
    regions: tuple[Region, ...] = ()  # gold, where it is known
    name: str = ""  # of its file
    also: tuple[str, ...] = ()  # other captions that are as right, for scoring

    @property
    def references(self) -> list[str]:
        """Every right caption."""
        return [*self.captions, *self.also]


@dataclass
class CaptionCorpus(Parts):
    """The splits of one corpus; all pictures have one size."""

    name: str
    train: Sequence[Captioned]
    valid: Sequence[Captioned]
    tests: dict[str, Sequence[Captioned]]
    notes: list[str] = field(default_factory=list)  # pictures that were cropped, and the like
