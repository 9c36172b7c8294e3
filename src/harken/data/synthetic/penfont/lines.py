"""Penfont: lines of handwriting that the package makes, as many as are wanted, each with its text.

Texts are one or two words of letters drawn at random, or short numbers, so that every letter comes after every other
and nothing can be guessed from the language; each line is written by a hand of its own. Train, valid and test are made
from their own random numbers and share no text.

>>> lines = penfont(train=3, seed=1)["train"]
>>> [len(line.text) <= LONGEST for line in lines], lines[0].points.shape[1]
([True, True, True], 3)
"""

from __future__ import annotations

import numpy as np

from harken.data.strokes.drawing import Drawing
from harken.data.synthetic.penfont.hand import Hand

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
