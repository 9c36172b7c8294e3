"""Word vectors and queries on them: similarity, nearest neighbours, analogies; and one-hot vectors, the baseline.

    similarity(a, b) = cos(v_a, v_b)            neighbours: the highest cosines, by one product with the whole matrix
    a is to b as c is to ?   the word closest to  b - a + c  (of unit length each), excluding a, b and c

Reference: Mikolov, Yih and Zweig, 2013, "Linguistic Regularities in Continuous Space Word Representations".

>>> vectors = WordVectors(["king", "man", "woman", "queen"], [[2, 1], [0, 1], [0, -1], [2, -1]])
>>> round(vectors.similarity("king", "queen"), 3)
0.6
>>> vectors.neighbors("king", 1)
[('queen', 0.6)]
>>> vectors.analogy("man", "king", "woman", 1)[0][0]
'queen'
>>> vectors = OneHot(["cat", "dog", "car"])
>>> vectors.vector("dog").tolist(), vectors.similarity("cat", "dog"), vectors.similarity("cat", "cat")
([0.0, 1.0, 0.0], 0.0, 1.0)
>>> vectors.neighbors("dog", 2)
[('cat', 0.0), ('car', 0.0)]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harken.embeddings.vocabulary import Vocabulary
from harken.embeddings.word2vec.settings import Subwords
from harken.errors import UserError
from harken.files import expand_user


class WordVectors:
    """A vector for every word, and for unseen words where there are vectors of character n-grams."""

    def __init__(
        self,
        words: Sequence[str] | Callable[[], Vocabulary],
        matrix: ArrayLike,
        counts: Sequence[int] | NDArray[np.int64] | None = None,
        subwords: Subwords | None = None,
        ngrams: NDArray[np.float32] | None = None,
        card: dict[str, Any] | None = None,
    ) -> None:
        self.matrix = np.asanyarray(matrix, dtype=np.float32)  # (V, D), may be memory-mapped
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
            UserError: it is none of them, or damaged.
        """
        from harken.embeddings.folder import load_folder, require_folder
        from harken.embeddings.formats import read_vectors

        path = expand_user(path)
        return load_folder(require_folder(path)) if path.is_dir() else read_vectors(path)

    def save(self, folder: str | Path) -> None:
        """Write a folder whose arrays are memory-mapped when it is opened."""
        from harken.embeddings.folder import save_folder

        save_folder(self, Path(folder))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The words; those of a folder are read on first use."""
        if callable(self._words):
            return self._words()
        counts = self._counts if self._counts is not None else np.zeros(len(self._words), dtype=np.int64)
        return Vocabulary(self._words, counts)

    @property
    def words(self) -> list[str]:
        """The words by id, the most frequent first where counts are known."""
        return self.vocabulary.words

    @property
    def width(self) -> int:
        """The dimension D."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.matrix)

    def __contains__(self, word: str) -> bool:
        return word in self.vocabulary

    def knows(self, word: str) -> bool:
        """Whether `vector` succeeds: the word is in the vocabulary, or has character n-grams."""
        return word in self or bool(self.subwords and self.subwords.ngrams(word))

    def vector(self, word: str) -> NDArray[np.float32]:
        """(D,): the word's own vector, or the mean of its n-grams for an unseen word.

        Raises:
            UserError: the word is unknown; the message suggests words of similar spelling.
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
        """(V,): norms of the vectors; 1 for a vector of zeros, so that its cosine with anything is 0."""
        lengths = np.sqrt(np.einsum("vd,vd->v", self.matrix, self.matrix))
        return np.where(lengths > 0, lengths, 1).astype(np.float32)

    def scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of queries (Q, D) with every word: (Q, V)."""
        return unit(queries) @ self.matrix.T / self.norms

    def similarity(self, first: str, second: str) -> float:
        """The cosine of two words, from -1 to 1."""
        return float(unit(self.vector(first)) @ unit(self.vector(second)))

    def neighbors(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words with the highest cosines, excluding the word itself."""
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
        best = best[np.lexsort((best, -scores[best]))]  # of equal scores the more frequent word first
        return [(self.vocabulary.word_at(number), round(float(scores[number]), 6)) for number in best]

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, {self.width} dimensions)"


def unit(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """Vectors of length 1; zeros stay zeros."""
    lengths = np.sqrt(np.square(vectors).sum(-1, keepdims=True))
    return vectors / np.where(lengths > 0, lengths, np.float32(1))


class OneHot(WordVectors):
    """One dimension per word: cos(e_a, e_b) = [a = b]. The V x V matrix is not stored."""

    def __init__(self, words: Sequence[str], counts: Sequence[int] | NDArray[np.int64] | None = None) -> None:
        super().__init__(words, np.zeros((len(words), 0), dtype=np.float32), counts)

    @property
    def width(self) -> int:
        """The dimension, V."""
        return len(self)

    def vector(self, word: str) -> NDArray[np.float32]:
        """(V,): 1 at the word's index."""
        number = self.vocabulary.id_of(word)
        if number is None:
            super().vector(word)  # raises with suggestions
            raise UserError(f'"{word}" is not known.')
        vector = np.zeros(len(self), dtype=np.float32)
        vector[number] = 1
        return vector

    def scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of queries (Q, V) with every word: the queries themselves, of unit length."""
        return np.array(unit(queries))
