"""A corpus as training sees it: one flat stream of word ids, mapped from a file, -1 after every sentence.

Only the pages that are read come into memory, so a corpus may be larger than it. Words that the vocabulary leaves out
are not in the stream at all: their neighbours move together, as in word2vec.

>>> corpus = Corpus(Vocabulary(["a", "b"], [2, 1]), np.array([0, 1, -1, 0, -1], dtype=np.int32), words_read=4)
>>> corpus.words, corpus.sentences, corpus.left_out
(3, 2, 1)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vocabulary import Vocabulary

END = -1  # after the last word of every sentence
PIECE = 4_000_000  # ids that are looked at together where a whole stream is gone through


@dataclass
class Corpus:
    """A vocabulary, the text in its ids, and what was read to get there."""

    vocabulary: Vocabulary
    stream: NDArray[np.int32]  # (words + sentences,)
    words_read: int  # with those the vocabulary leaves out
    files: list[Path] = field(default_factory=list)
    folder: Any = None  # a temporary folder that holds the stream and goes when the corpus does

    @cached_property
    def words(self) -> int:
        """Words in the stream."""
        return int(self.vocabulary.counts.sum())

    @property
    def sentences(self) -> int:
        """Lines of text that had words; what is left of one may be empty."""
        return len(self.stream) - self.words

    @property
    def left_out(self) -> int:
        """Words that were read and are not in the stream: rare ones, and second halves of phrases."""
        return self.words_read - self.words
