"""A hand that writes the font: size, slant, spacing and habits of its own, and never the same letter twice.

A text is laid out letter by letter. The points of each letter tremble before its curves are drawn; the letter is
stretched, turned and set on a base line that wanders; where the way to the next letter is short the hand may leave the
pen on the paper. Curves are then cut into steps of about equal length, and corners stay corners.

>>> random = np.random.default_rng(1)
>>> drawing = Hand.draw(random).write("so 7", random)
>>> drawing.text, len(drawing.strokes()) in (2, 3)
('so 7', True)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.penfont.glyphs import GLYPHS, SPACE, Stroke
from harken.errors import UserError

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
