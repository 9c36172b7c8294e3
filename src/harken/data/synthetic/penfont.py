"""Penfont: lines of handwriting that the package makes, as many as are wanted, each with its text.

The font has single strokes, a to z and 0 to 9, as a pen goes. Each letter is a line of points on a grid where small
letters are 10 high, tall ones 18, and tails reach to -8; y grows upwards here. A comma goes on along a smooth curve, a
slash turns a corner, a bar lifts the pen. Curves are Catmull-Rom splines through the points, so every place on them is
a weighted sum of the points: the weights are made once.

A hand writes the font with a size, slant, spacing and habits of its own, and never the same letter twice: the points of
each letter tremble before its curves are drawn; the letter is stretched, turned and set on a base line that wanders;
where the way to the next letter is short the hand may leave the pen on the paper. Curves are then cut into steps of
about equal length, and corners stay corners.

Texts are one or two words of letters drawn at random, or short numbers, so that every letter comes after every other
and nothing can be guessed from the language; each line is written by a hand of its own. Train, valid and test are made
from their own random numbers and share no text.

>>> glyph = GLYPHS["i"]
>>> len(glyph.strokes), glyph.width
(2, 2.5)
>>> glyph.strokes[1].pieces[0].weights.shape  # places on the dot's curve, points it is drawn through
(9, 2)
>>> random = np.random.default_rng(1)
>>> drawing = Hand.draw(random).write("so 7", random)
>>> drawing.text, len(drawing.strokes()) in (2, 3)
('so 7', True)
>>> lines = penfont(train=3, seed=1)["train"]
>>> [len(line.text) <= LONGEST for line in lines], lines[0].points.shape[1]
([True, True, True], 3)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.vocabulary import load_vocabulary
from harken.errors import UserError

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


NEAR = 9.0  # a join is at most this long


@dataclass(frozen=True)
class Hand:
    """How somebody writes."""

    size: float  # 1: small letters are 10 high
    slant: float  # how far the top of a tall letter leans, as a share of its height
    gap: float  # between letters
    step: float  # between points
    tremble: float  # deviation of a letter's points
    wander: float  # deviation of the base line between letters
    joins: float  # how often a short way to the next letter is drawn

    @classmethod
    def draw(cls, random: np.random.Generator) -> Hand:
        """Draw the habits of one writer."""
        return cls(
            size=random.uniform(0.85, 1.15),
            slant=random.uniform(-0.1, 0.35),
            gap=random.uniform(2.2, 3.8),
            step=random.uniform(2.3, 2.7),
            tremble=random.uniform(0.1, 0.4),
            wander=random.uniform(0.0, 0.5),
            joins=random.choice([0.0, 0.5, 0.9]),
        )

    def write(self, text: str, random: np.random.Generator) -> Drawing:
        """One line.

        Raises:
            UserError: a character that the font does not have, or nothing to write.
        """
        strange = sorted(set(text) - set(GLYPHS) - {" "})
        if strange or not text.strip():
            problem = f"{strange[0]!r}" if strange else "nothing to write"
            raise UserError(f"the text {text!r} has {problem}; the font of strokes has a to z, 0 to 9 and the space")
        lines: list[list[np.ndarray]] = []  # strokes, each a list of pieces (places, 2)
        x, height, joinable = 0.0, 0.0, False
        for character in text:
            height = 0.8 * height + random.normal(0, self.wander)
            if character == " ":
                x, joinable = x + SPACE * random.uniform(0.8, 1.2), False
                continue
            strokes = self._letter(character, np.array([x, height]), random)
            if joinable and random.random() < self.joins and self._near(lines[-1][-1][-1], strokes[0][0][0]):
                bridge = np.stack([lines[-1][-1][-1], strokes[0][0][0]])
                lines[-1] += [bridge, *strokes.pop(0)]
            lines += strokes
            x += GLYPHS[character].width + self.gap + random.normal(0, 0.3)
            joinable = len(GLYPHS[character].strokes) == 1  # dots and bars are set before the pen goes on
        return Drawing.of([self._steps(pieces) for pieces in lines], text)

    def _near(self, end: np.ndarray, start: np.ndarray) -> bool:
        return bool(np.hypot(*(start - end)) < NEAR and start[0] > end[0])

    def _letter(self, character: str, place: np.ndarray, random: np.random.Generator) -> list[list[np.ndarray]]:
        """Its strokes as pieces of curves on the paper, y still upwards."""
        stretch = 1 + random.normal(0, 0.05, 2)
        turn = random.normal(0, 0.03)
        turned = np.array([[1, turn], [-turn, 1]]) * stretch  # nearly a rotation
        return [
            [places @ turned + place for places in self._curves(stroke, random)] for stroke in GLYPHS[character].strokes
        ]

    def _curves(self, stroke: Stroke, random: np.random.Generator) -> list[np.ndarray]:
        points = stroke.points + random.normal(0, self.tremble, stroke.points.shape)
        return [piece.weights @ points[piece.first : piece.last] for piece in stroke.pieces]

    def _steps(self, pieces: list[np.ndarray]) -> np.ndarray:
        """Pieces of curves -> places about a step apart, slanted, sized and turned to screens' y."""
        places = [pieces[0][:1]]
        for piece in pieces:
            ways = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(piece, axis=0).T))])
            marks = np.linspace(0, ways[-1], max(1, round(float(ways[-1]) / self.step)) + 1)[1:]
            places.append(np.column_stack([np.interp(marks, ways, piece[:, 0]), np.interp(marks, ways, piece[:, 1])]))
        x, y = np.concatenate(places).T
        return np.column_stack([x + self.slant * y, -y]) * self.size


LETTERS, DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
LONGEST = 11  # characters of a line
HELD_OUT = 400  # lines to validate on, and as many to test on


def penfont(train: int, seed: int, held_out: int = HELD_OUT) -> dict[str, list[Drawing]]:
    """The splits; the same for the same seed, and a larger one begins as a smaller one does."""
    taken: set[str] = set()
    splits = {}
    for number, (name, count) in enumerate((("test", held_out), ("valid", held_out), ("train", train))):
        random = np.random.default_rng([seed, number])
        lines: list[Drawing] = []
        mine: set[str] = set()
        while len(lines) < count:
            text = make_text(random)
            line = Hand.draw(random).write(text, random)
            if text not in taken:
                lines.append(line)
                mine.add(text)
        taken |= mine
        splits[name] = lines
    return splits


def make_text(random: np.random.Generator) -> str:
    """One or two words, of letters or of digits."""
    words = [make_word(random)]
    if random.random() < 0.5:
        words.append(make_word(random))
    return " ".join(words)[:LONGEST].strip()


def make_word(random: np.random.Generator) -> str:
    """Two to seven letters, or one to four digits."""
    if random.random() < 0.25:
        return "".join(random.choice(list(DIGITS), random.integers(1, 5)))
    return "".join(random.choice(list(LETTERS), random.integers(2, 8)))
