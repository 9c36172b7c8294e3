"""Words and their vectors, to look things up in: apart from training, light, and quick to open.

similarity(a, b) = cos(v_a, v_b)            neighbours: the highest cosines, by one product with the whole matrix
a is to b as c is to ?   the word closest to  b - a + c  (of unit length each), the three themselves left out

Reference: Mikolov, Yih and Zweig, 2013, "Linguistic Regularities in Continuous Space Word Representations".

>>> vectors = WordVectors(["king", "man", "woman", "queen"], [[2, 1], [0, 1], [0, -1], [2, -1]])
>>> round(vectors.similarity("king", "queen"), 3)
0.6
>>> vectors.neighbors("king", 1)
[('queen', 0.6)]
>>> vectors.analogy("man", "king", "woman", 1)[0][0]
'queen'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harken.embeddings.vocabulary import Vocabulary
from harken.embeddings.word2vec.subwords import Subwords
from harken.errors import UserError


class WordVectors:
    """A vector for every word, and for unseen ones where there are vectors of n-grams."""

    def __init__(
        self,
        words: Sequence[str] | Callable[[], Vocabulary],
        matrix: ArrayLike,
        counts: Sequence[int] | NDArray[np.int64] | None = None,
        subwords: Subwords | None = None,
        ngrams: NDArray[np.float32] | None = None,
        card: dict[str, Any] | None = None,
    ) -> None:
        self.matrix = np.asanyarray(matrix, dtype=np.float32)  # (V, D), may be mapped from a file
        self._words = words
        self._counts = counts
        self.subwords, self.ngrams = subwords, ngrams  # (buckets, D)
        self.card = card or {}
        if not callable(words) and len(words) != len(self.matrix):
            raise ValueError(f"{len(words)} words with {len(self.matrix)} vectors")

    @classmethod
    def load(cls, path: str | Path) -> WordVectors:
        """A folder that `save` made, or a file of word2vec (text or binary) or GloVe.

        Raises:
            UserError: it is none of them, or broken.
        """
        from harken.embeddings.io.folder import load_folder, require_folder
        from harken.embeddings.io.formats import read_vectors

        path = Path(path).expanduser()
        return load_folder(require_folder(path)) if path.is_dir() else read_vectors(path)

    def save(self, folder: str | Path) -> None:
        """Write our own format: a folder that is mapped, not read, when it is opened."""
        from harken.embeddings.io.folder import save_folder

        save_folder(self, Path(folder))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words; from a folder they are read when first asked for."""
        if callable(self._words):
            return self._words()
        counts = self._counts if self._counts is not None else np.zeros(len(self._words), dtype=np.int64)
        return Vocabulary(self._words, counts)

    @property
    def words(self) -> list[str]:
        """By id, the most frequent first where that is known."""
        return self.vocabulary.words

    @property
    def width(self) -> int:
        """D."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.matrix)

    def __contains__(self, word: str) -> bool:
        return word in self.vocabulary

    def knows(self, word: str) -> bool:
        """Whether `vector` gives one: the word is there, or has n-grams that can stand for it."""
        return word in self or bool(self.subwords and self.subwords.ngrams(word))

    def vector(self, word: str) -> NDArray[np.float32]:
        """(D,): the word's own, or the mean of its n-grams where it was never seen.

        Raises:
            UserError: the word is not known; those spelt like it are named.
        """
        number = self.vocabulary.id_of(word)
        if number is not None:
            return np.array(self.matrix[number])
        if self.subwords is not None and self.ngrams is not None:
            rows = self.subwords.rows(word)
            if rows:
                return np.asarray(self.ngrams[rows]).mean(0)
        near = self.vocabulary.near(word)
        remedy = f"did you mean {' or '.join(near)}?" if near else "give a word of the corpus."
        raise UserError(f'"{word}" is not among the {len(self):,} words: {remedy}')

    @cached_property
    def norms(self) -> NDArray[np.float32]:
        """(V,): lengths of the vectors; 1 for a vector of zeros, whose cosine with anything is 0 so."""
        lengths = np.sqrt(np.einsum("vd,vd->v", self.matrix, self.matrix))
        return np.where(lengths > 0, lengths, 1).astype(np.float32)

    def scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of queries (Q, D) with every word: (Q, V)."""
        return unit(queries) @ self.matrix.T / self.norms

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words, from -1 to 1."""
        return float(unit(self.vector(first)) @ unit(self.vector(second)))

    def neighbors(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words with the highest cosines, itself left out."""
        return self.nearest(self.vector(word), count, without=[word])

    def analogy(self, a: str, b: str, c: str, count: int = 10) -> list[tuple[str, float]]:
        """a is to b as c is to these."""
        return self.nearest(self.analogy_query(a, b, c), count, without=[a, b, c])

    def analogy_query(self, a: str, b: str, c: str) -> NDArray[np.float32]:
        """b - a + c, of unit length each."""
        return unit(self.vector(b)) - unit(self.vector(a)) + unit(self.vector(c))

    def nearest(
        self, query: NDArray[np.float32], count: int = 10, without: Iterable[str] = ()
    ) -> list[tuple[str, float]]:
        """The words with the highest cosines to a vector (D,)."""
        scores = self.scores(query[None])[0]
        hidden = [number for word in without if (number := self.vocabulary.id_of(word)) is not None]
        scores[hidden] = -np.inf
        count = max(0, min(count, len(scores) - len(set(hidden))))
        if count == 0:
            return []
        best = np.argpartition(-scores, count - 1)[:count]
        best = best[np.lexsort((best, -scores[best]))]  # among equals the frequent word first
        return [(self.vocabulary.word_at(number), round(float(scores[number]), 6)) for number in best]

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, {self.width} dimensions)"


def unit(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """Vectors of length 1; zeros stay zeros."""
    lengths = np.sqrt(np.square(vectors).sum(-1, keepdims=True))
    return vectors / np.where(lengths > 0, lengths, np.float32(1))
