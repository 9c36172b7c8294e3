"""One-hot vectors, the baseline: a word is a 1 at its own place, so every other word is equally far.

cos(e_a, e_b) = 1 where a = b, else 0

No matrix is kept: it would be V x V.

>>> vectors = OneHot(["cat", "dog", "car"])
>>> vectors.vector("dog").tolist(), vectors.similarity("cat", "dog"), vectors.similarity("cat", "cat")
([0.0, 1.0, 0.0], 0.0, 1.0)
>>> vectors.neighbors("dog", 2)
[('cat', 0.0), ('car', 0.0)]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vectors import WordVectors, unit
from harken.errors import UserError


class OneHot(WordVectors):
    """As many dimensions as words."""

    def __init__(self, words: Sequence[str], counts: Sequence[int] | NDArray[np.int64] | None = None) -> None:
        super().__init__(words, np.zeros((len(words), 0), dtype=np.float32), counts)

    @property
    def width(self) -> int:
        """V."""
        return len(self)

    def vector(self, word: str) -> NDArray[np.float32]:
        """(V,): a 1 at the word's place."""
        number = self.vocabulary.id_of(word)
        if number is None:
            super().vector(word)  # says what is wrong
            raise UserError(f'"{word}" is not known.')
        one = np.zeros(len(self), dtype=np.float32)
        one[number] = 1
        return one

    def scores(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of queries (Q, V) with every word: the queries themselves, of unit length."""
        return np.array(unit(queries))
