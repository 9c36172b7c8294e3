"""Character n-grams: a word's vector is the mean of its own and those of its pieces, so an unseen word has one too.

v(word) = mean of the rows of {word} + { g : n-gram of <word>, n from `shortest` to `longest` }

< and > mark the ends of the word. N-grams share a fixed number of rows by their hash. Reference: Bojanowski et al.,
2017, "Enriching Word Vectors with Subword Information" (fastText); the hash here is CRC-32.

>>> Subwords(3, 4, 1000).ngrams("cat")
['<ca', '<cat', 'cat', 'cat>', 'at>']
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harken.errors import UserError


@dataclass(frozen=True)
class Subwords:
    """Which n-grams, and how many rows they share."""

    shortest: int = 3
    longest: int = 6
    buckets: int = 200_000

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest or self.buckets < 1:
            raise UserError(
                f"n-grams of {self.shortest} to {self.longest} characters in {self.buckets} buckets cannot be: "
                "give a shortest of at least 1, a longest that is no shorter, and at least one bucket."
            )

    def ngrams(self, word: str) -> list[str]:
        """The pieces of a word, the whole of it with both ends left out."""
        marked = f"<{word}>"
        return [
            marked[start : start + length]
            for start in range(len(marked))
            for length in range(self.shortest, self.longest + 1)
            if start + length <= len(marked) and length < len(marked)
        ]

    def rows(self, word: str) -> list[int]:
        """The row of each n-gram among the buckets."""
        return [zlib.crc32(piece.encode()) % self.buckets for piece in self.ngrams(word)]

    def bags(self, words: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """For every word its row and those of its n-grams, which come after the words: where each begins, and all."""
        starts, rows = [0], []
        for number, word in enumerate(words):
            rows.append(number)
            rows.extend(len(words) + row for row in self.rows(word))
            starts.append(len(rows))
        return np.array(starts), np.array(rows, dtype=np.int32)
