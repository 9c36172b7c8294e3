"""What a training leaves, and what of it is kept.

>>> from harken.embeddings.word2vec.settings import Settings
>>> from harken.embeddings.word2vec.threads import Progress
>>> from harken.embeddings.vocabulary import Vocabulary
>>> corpus = Corpus(Vocabulary(["a", "b"], [2, 1]), np.array([0, 1, 0, -1]), 3)
>>> learnt = Learnt(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), Progress(1, 3, 3, 0.5, [6.0], [4]))
>>> vectors = learnt.vectors(corpus, Settings(width=2))
>>> vectors.words, vectors.card["losses"], vectors.card["settings"]["window"]
(['a', 'b'], [1.5], 5)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.io.corpus import Corpus
from harken.embeddings.vectors import WordVectors
from harken.embeddings.word2vec.threads import Progress
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.embeddings.glove.training import GloveSettings
    from harken.embeddings.word2vec.settings import Settings


@dataclass
class Learnt:
    """What a training leaves."""

    inputs: NDArray[np.float32]  # (V, D): the word vectors, n-grams behind them
    outputs: NDArray[np.float32]  # (V, D), or the nodes of the tree
    progress: Progress
    device: str = "cpu"

    def vectors(self, corpus: Corpus, settings: Settings | GloveSettings) -> WordVectors:
        """What to keep: a vector for each word, those of the n-grams, and how they came to be."""
        size = len(corpus.vocabulary)
        matrix, ngrams = self.inputs[:size], None
        subwords = getattr(settings, "subwords", None)
        if subwords is not None:
            ngrams = self.inputs[size:]
            starts, rows = subwords.bags(corpus.vocabulary.words)
            matrix = np.add.reduceat(self.inputs[rows], starts[:-1]) / np.diff(starts)[:, None].astype(np.float32)
        told = {key: value for key, value in asdict(settings).items() if key != "subwords"} | {"device": self.device}
        return WordVectors(
            corpus.vocabulary.words,
            matrix,
            corpus.vocabulary.counts,
            subwords,
            ngrams,
            {
                "settings": told,
                "losses": [round(loss, 6) for loss in self.progress.losses],
                "words_trained": self.progress.words,
                "seconds": round(self.progress.seconds, 2),
                "stopped_early": self.progress.stopped,
            },
        )


def require_numba() -> None:
    """Raises UserError where the compiler is missing: looking at vectors needs none, training does."""
    if find_spec("numba") is None:
        raise UserError("Training word vectors needs numba, which is not installed: pip install numba.")
