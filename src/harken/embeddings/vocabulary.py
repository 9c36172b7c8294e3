"""The words of a corpus and how often each occurs; a word's id is its frequency rank.

Frequent words are subsampled in training, so that `the` does not fill every window; a word is kept with probability

    keep(w) = min(1, sqrt(t / f(w)) + t / f(w))        f: share of the corpus, t: the threshold

Reference: Mikolov et al., 2013, "Distributed Representations of Words and Phrases"; the formula is that of their
program, which keeps a little more than the paper's.

`MappedVocabulary` finds a word in a memory-mapped list without reading the list, so that a folder opens at once:

    index.npy    (2, V) uint32   CRC-32 of every word, sorted, and the words' ids in that order
    starts.npy   (V + 1,) int64  where each word begins in words.txt, and its end

>>> vocabulary = Vocabulary(["the", "cat"], [90, 10])
>>> vocabulary.id_of("cat"), vocabulary.id_of("dog")
(1, None)
>>> vocabulary.keep_probabilities(0.01).round(3).tolist()
[0.117, 0.416]
>>> checksums, ids = index_of(["the", "cat", "sat"])
>>> sorted(ids.tolist()), bool((np.diff(checksums.astype(np.int64)) >= 0).all()), starts_of(["the", "sofa"]).tolist()
([0, 1, 2], True, [0, 4, 9])
"""

from __future__ import annotations

import difflib
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Vocabulary:
    """Words by id and ids by word."""

    def __init__(self, words: Iterable[str], counts: Sequence[int] | NDArray[np.int64]) -> None:
        self.words = list(words)
        self.counts = np.asarray(counts, dtype=np.int64)  # (V,)
        if len(self.words) != len(self.counts):
            raise ValueError(f"{len(self.words)} words with {len(self.counts)} counts")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._ids

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def id_of(self, word: str) -> int | None:
        """The id of a word, or None where it is unknown."""
        return self._ids.get(word)

    def word_at(self, number: int) -> str:
        """The word of an id."""
        return self.words[number]

    def keep_probabilities(self, threshold: float) -> NDArray[np.float64]:
        """(V,): the probability that each word is kept; all 1 where the threshold is 0."""
        if threshold == 0:
            return np.ones(len(self))
        share = threshold * self.counts.sum() / np.maximum(self.counts, 1)  # t / f
        return np.minimum(1.0, np.sqrt(share) + share)

    def near(self, word: str, count: int = 3) -> list[str]:
        """Known words of similar spelling and length, searched among the most frequent."""
        lowered = word.lower()
        same = [form for form in (lowered, word.capitalize(), word.upper()) if form != word and form in self]
        alike = [known for known in self.words[:50_000] if abs(len(known) - len(word)) <= 2]
        same += [known for known in difflib.get_close_matches(word, alike, n=count, cutoff=0.65) if known not in same]
        return same[:count]


MANY = 50  # after V / MANY queries a dictionary is built, which is faster per query


def index_of(words: Sequence[str]) -> NDArray[np.uint32]:
    """(2, V): the sorted checksums and the ids in that order."""
    checksums = np.fromiter((zlib.crc32(word.encode()) for word in words), dtype=np.uint32, count=len(words))
    order = np.argsort(checksums, kind="stable").astype(np.uint32)
    return np.stack([checksums[order], order])


def starts_of(words: Sequence[str]) -> NDArray[np.int64]:
    """(V + 1,): byte offsets of the words in a text with one word per line."""
    lengths = np.fromiter((len(word.encode()) + 1 for word in words), dtype=np.int64, count=len(words))
    return np.concatenate([[0], lengths.cumsum()])


class MappedVocabulary(Vocabulary):
    """A vocabulary whose words stay in their file until `words` is read."""

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
        self._queries = 0

    @cached_property
    def words(self) -> list[str]:  # type: ignore[override]
        """All words, read from the file on first use."""
        return self._read()

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, word: str) -> bool:
        return self.id_of(word) is not None

    def id_of(self, word: str) -> int | None:
        """The id of a word, or None where it is unknown."""
        self._queries += 1
        if self._queries * MANY > len(self):
            return super().id_of(word)
        encoded = word.encode()
        checksum = np.uint32(zlib.crc32(encoded))
        row = int(np.searchsorted(self._index[0], checksum))
        while row < len(self) and self._index[0, row] == checksum:
            number = int(self._index[1, row])
            if self._bytes(number) == encoded:
                return number
            row += 1
        return None

    def word_at(self, number: int) -> str:
        """The word of an id."""
        return self._bytes(number).decode()

    def _bytes(self, number: int) -> bytes:
        line: Any = self._text[self._starts[number] : self._starts[number + 1] - 1]
        return bytes(line)
