"""The words of a corpus and how often each occurs, the most frequent first (S29: a word's id is its place).

A frequent word is kept with a probability only, so that `the` does not fill every window:

    keep(w) = min(1, sqrt(t / f(w)) + t / f(w))        f: share of the corpus, t: the threshold

Reference: Mikolov et al., 2013, "Distributed Representations of Words and Phrases"; the formula is that of their
program, which keeps a little more than the paper's.

>>> vocabulary = Vocabulary(["the", "cat"], [90, 10])
>>> vocabulary.id_of("cat"), vocabulary.id_of("dog")
(1, None)
>>> vocabulary.keep_probabilities(0.01).round(3).tolist()
[0.117, 0.416]
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from functools import cached_property

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
        """The word's place, or None where it is not known."""
        return self._ids.get(word)

    def word_at(self, number: int) -> str:
        """The word of an id."""
        return self.words[number]

    def keep_probabilities(self, threshold: float) -> NDArray[np.float64]:
        """How likely each word stays in the text; all 1 where the threshold is 0."""
        if threshold == 0:
            return np.ones(len(self))
        share = threshold * self.counts.sum() / np.maximum(self.counts, 1)  # t / f
        return np.minimum(1.0, np.sqrt(share) + share)

    def near(self, word: str, count: int = 3) -> list[str]:
        """Known words that are spelt like it: among those of like length, the frequent ones first to be looked at."""
        lowered = word.lower()
        same = [form for form in (lowered, word.capitalize(), word.upper()) if form != word and form in self]
        alike = [known for known in self.words[:50_000] if abs(len(known) - len(word)) <= 2]
        same += [known for known in difflib.get_close_matches(word, alike, n=count, cutoff=0.65) if known not in same]
        return same[:count]
