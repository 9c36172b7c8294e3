"""Where a word stands in a mapped list, without reading the list: so that a folder opens, and answers, at once.

    index.npy    (2, V) uint32   CRC-32 of every word, sorted, and the words' ids in that order
    starts.npy   (V + 1,) int64  where each word begins in words.txt, and its end

Looking a word up is a search among the sorted numbers and one look into the text. Who asks often is better served by a
dictionary, which is made after some questions.

>>> checks, ids = index_of(["the", "cat", "sat"])
>>> sorted(ids.tolist()), bool((np.diff(checks.astype(np.int64)) >= 0).all()), starts_of(["the", "sofa"]).tolist()
([0, 1, 2], True, [0, 4, 9])
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vocabulary import Vocabulary

MANY = 50  # a dictionary is made when one in so many of the words was asked for


def index_of(words: Sequence[str]) -> NDArray[np.uint32]:
    """(2, V)."""
    checks = np.fromiter((zlib.crc32(word.encode()) for word in words), dtype=np.uint32, count=len(words))
    order = np.argsort(checks, kind="stable").astype(np.uint32)
    return np.stack([checks[order], order])


def starts_of(words: Sequence[str]) -> NDArray[np.int64]:
    """(V + 1,), of a text with a word a line."""
    lengths = np.fromiter((len(word.encode()) + 1 for word in words), dtype=np.int64, count=len(words))
    return np.concatenate([[0], lengths.cumsum()])


class MappedVocabulary(Vocabulary):
    """A vocabulary whose words stay in their file until all of them are asked for."""

    def __init__(
        self,
        read: Callable[[], list[str]],
        counts: NDArray[np.int64],
        text: NDArray[np.uint8],
        index: NDArray[np.uint32],
        starts: NDArray[np.int64],
    ) -> None:
        self._read, self.counts = read, counts
        self._text, self._index, self._starts = text, index, starts
        self._asked = 0

    @cached_property
    def words(self) -> list[str]:  # type: ignore[override]
        """All of them, read now."""
        return self._read()

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, word: str) -> bool:
        return self.id_of(word) is not None

    def id_of(self, word: str) -> int | None:
        """The word's place, or None where it is not known."""
        self._asked += 1
        if self._asked * MANY > len(self):
            return super().id_of(word)
        wanted = word.encode()
        check = np.uint32(zlib.crc32(wanted))
        place = int(np.searchsorted(self._index[0], check))
        while place < len(self) and self._index[0, place] == check:
            number = int(self._index[1, place])
            if self._bytes(number) == wanted:
                return number
            place += 1
        return None

    def word_at(self, number: int) -> str:
        """The word of an id."""
        return self._bytes(number).decode()

    def _bytes(self, number: int) -> bytes:
        line: Any = self._text[self._starts[number] : self._starts[number + 1] - 1]
        return bytes(line)
