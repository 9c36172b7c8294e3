"""A font of single strokes: a to z and 0 to 9, as a pen goes.

Each letter is a line of points on a grid where small letters are 10 high, tall ones 18, and tails reach to -8; y grows
upwards here. A comma goes on along a smooth curve, a slash turns a corner, a bar lifts the pen. Curves are Catmull-Rom
splines through the points, so every place on them is a weighted sum of the points: the weights are made once.

>>> glyph = GLYPHS["i"]
>>> len(glyph.strokes), glyph.width
(2, 2.5)
>>> glyph.strokes[1].pieces[0].weights.shape  # places on the dot's curve, points it is drawn through
(9, 2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harken.data.synthetic.vocabulary import load_vocabulary

FINE = 8  # places on a curve between two of its points
SPACE = 6.0  # the width of a space


@dataclass(frozen=True)
class Piece:
    """A smooth curve from one corner to the next: places = weights @ points."""

    first: int  # of the stroke's points, shared with the piece before
    last: int
    weights: np.ndarray  # (places, points)


@dataclass(frozen=True)
class Stroke:
    """From where the pen comes down to where it is lifted."""

    points: np.ndarray  # (points, 2)
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Glyph:
    """A letter."""

    strokes: tuple[Stroke, ...]
    width: float


def spline(count: int) -> np.ndarray:
    """Weights (places, count) of a Catmull-Rom curve through `count` points, its ends drawn as if mirrored.

    >>> spline(3)[[0, FINE, 2 * FINE]].tolist()  # it goes through its points
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    beyond = np.eye(count)
    beyond = np.vstack([2 * beyond[0] - beyond[1], beyond, 2 * beyond[-1] - beyond[-2]])  # (count + 2, count)
    along = np.linspace(0, 1, FINE, endpoint=False)[:, None]
    cubes = np.hstack([np.ones_like(along), along, along**2, along**3])  # (FINE, 4)
    rule = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]])
    parts = [cubes @ rule @ beyond[start : start + 4] for start in range(count - 1)]
    return np.vstack([*parts, np.eye(count)[-1:]])


def read_glyph(shape: str) -> Glyph:
    """A letter from its line of points."""
    strokes = []
    for line in shape.split("|"):
        points: list[list[float]] = []
        pieces = []
        for part in line.split("/"):
            first = max(0, len(points) - 1)
            points += [[float(number) for number in point.split()] for point in part.split(",")]
            if len(points) - first > 1:
                pieces.append(Piece(first, len(points), spline(len(points) - first)))
        strokes.append(Stroke(np.array(points), tuple(pieces)))
    return Glyph(tuple(strokes), float(max(stroke.points[:, 0].max() for stroke in strokes)))


GLYPHS = {character: read_glyph(shape) for character, shape in load_vocabulary("penfont").items()}
