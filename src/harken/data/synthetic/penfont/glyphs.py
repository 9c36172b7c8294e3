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

FINE = 8  # places on a curve between two of its points
SPACE = 6.0  # the width of a space

SHAPES = {
    "a": "7.5 8.5, 4.5 10, 1 7.5, 0.8 3, 3.5 0, 6.5 2, 7.5 6 / 7.5 9.5 / 7.5 2, 8.2 0.2, 9.5 0.8",
    "b": "0.5 18 / 0.5 0.5 / 0.5 6, 3.5 10, 7 8.5, 8 5, 6.5 1, 3 0, 0.5 2",
    "c": "7.5 8, 5 10, 1.5 8.5, 0.5 5, 1.8 1.2, 5 0, 7.5 1.8",
    "d": "7.5 8.5, 4.5 10, 1 7.5, 0.8 3, 3.5 0, 6.5 2, 7.5 6 / 7.5 18 / 7.5 2, 8.2 0.2, 9.5 0.8",
    "e": "0.8 5 / 7.6 5.6 / 7 8.6, 4.5 10, 1.5 8.5, 0.5 5, 1.8 1.2, 5 0, 7.8 1.8",
    "f": "6.5 16.5, 4.8 18, 3 16.5, 2.5 13, 2.5 0 | 0 9.5, 5.5 9.5",
    "g": "7.5 8.5, 4.5 10, 1 7.5, 0.8 3.5, 3.5 0.8, 6.5 2.5, 7.5 6 / 7.5 9.5 / 7.5 -3, 6.5 -6.5, 3.5 -8, 0.8 -6.3",
    "h": "0.5 18 / 0.5 0 / 0.5 6, 3 9.6, 6 9.6, 7.2 7, 7.2 0",
    "i": "0.5 10, 0.5 2, 1.2 0.2, 2.5 0.8 | 0.5 13.5, 0.5 14.5",
    "j": "3 10, 3 -4, 2 -7.3, -0.5 -7.6 | 3 13.5, 3 14.5",
    "k": "0.5 18 / 0.5 0 | 6.5 10 / 0.8 4.5 / 7 0",
    "l": "0.5 18, 0.5 2.5, 1.3 0.2, 3 0.6",
    "m": "0.5 10 / 0.5 0 / 0.5 6, 2.5 9.6, 4.6 9.4, 5.3 7, 5.3 0 / 5.3 6, 7.3 9.6, 9.5 9.4, 10.2 7, 10.2 0",
    "n": "0.5 10 / 0.5 0 / 0.5 6, 3 9.6, 6 9.6, 7.2 7, 7.2 0",
    "o": "4.2 10, 1 8, 0.5 4.5, 2.3 0.6, 5 0.2, 7.6 2.5, 7.8 6.5, 6 9.5, 4.2 10",
    "p": "0.5 10 / 0.5 -8 / 0.5 6, 3.5 10, 7 8.5, 8 5, 6.5 1, 3 0, 0.5 2",
    "q": "7.5 8.5, 4.5 10, 1 7.5, 0.8 3, 3.5 0, 6.5 2, 7.5 6 / 7.5 9.5 / 7.5 -8 / 10 -5.5",
    "r": "0.5 10 / 0.5 0 / 0.5 5.5, 2.3 9, 5.5 9.8",
    "s": "6.5 8.6, 4 10, 1.2 8.6, 1.5 6.3, 4 5, 6.6 3.6, 6.6 1.2, 4 0, 0.8 1.4",
    "t": "2.5 15, 2.5 3, 3.5 0.3, 6 1 | 0 10, 5.5 10",
    "u": "0.5 10, 0.5 4, 1.8 0.6, 4.5 0.4, 7 3 / 7 10 / 7 2, 7.8 0.2, 9 0.8",
    "v": "0.3 10 / 3.8 0 / 7.3 10",
    "w": "0.3 10 / 2.8 0 / 5.3 8.5 / 7.8 0 / 10.3 10",
    "x": "0.5 10 / 7 0 | 7 10 / 0.5 0",
    "y": "0.3 10 / 4 0.5 | 7.5 10 / 1 -8",
    "z": "0.8 10 / 7 10 / 0.5 0 / 7.2 0",
    "0": "4.5 18, 1.2 15, 0.5 9, 1.5 2.5, 4.5 0, 7.5 2.5, 8.5 9, 7.5 15.5, 4.5 18",
    "1": "0.5 14.5 / 4 18 / 4 0",
    "2": "0.8 14.5, 2.2 17.5, 5 18, 7.6 16, 7.2 12, 4.5 7, 0.5 0 / 8.5 0",
    "3": "0.8 16.5, 4 18, 7.3 16, 6.8 11.5, 3.5 9.6 / 7 8.5, 8.3 5, 6.8 1, 3.5 0, 0.3 1.8",
    "4": "5.8 18 / 0.3 5.5 / 8.5 5.5 | 6.3 10 / 6.3 0",
    "5": "7.5 18 / 1.5 18 / 1 10 / 4.5 11.3, 7.8 9, 8 4, 5.5 0.5, 2.5 0, 0.3 1.8",
    "6": "7 17, 4 15, 1.4 10, 0.8 4.5, 2.8 0.4, 6 0.4, 7.8 4, 6.5 8, 3.5 8.6, 1.2 6",
    "7": "0.5 18 / 8 18 / 3 0",
    "8": "6.8 15.8, 4.5 18, 1.8 16, 2.2 12.5, 5 9.8, 7.9 6, 7.6 1.8, 4.5 0, 1.2 1.8, 0.9 5.5, 3.5 9.3, 6.6 12.5, "
    "6.8 15.8",
    "9": "7.5 14, 5.5 17.8, 2.2 17.4, 0.8 13.5, 2.2 9.8, 5.5 10, 7.5 14 / 7.2 6, 5.5 0",
}


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


GLYPHS = {character: read_glyph(shape) for character, shape in SHAPES.items()}
