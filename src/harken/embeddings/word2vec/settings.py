"""Settings of word2vec, and character n-grams as in fastText.

    v(word) = mean of the rows of {word} + { g : n-gram of <word>, n from `shortest` to `longest` }

< and > mark the ends of the word. N-grams share a fixed number of rows by their hash, so an unseen word has a vector
too. Reference: Bojanowski et al., 2017, "Enriching Word Vectors with Subword Information"; the hash here is CRC-32.

>>> round(Settings(method="cbow").rate_at(0.5), 6), Settings().rate_at(0.0)
(0.03005, 0.025)
>>> Subwords(3, 4, 1000).ngrams("cat")
['<ca', '<cat', 'cat', 'cat>', 'at>']
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.errors import UserError

# As in the word2vec program, except for CBOW, which has 0.05 there. In gensim, threads that read a file decay the rate
# by their own share of the file only, so that with two threads the mean rate is a tenth higher.
RATES = {"skipgram": 0.025, "cbow": 0.06}
METHODS = tuple(RATES)


@dataclass(frozen=True)
class Subwords:
    """Lengths of the n-grams, and the number of rows they share."""

    shortest: int = 3
    longest: int = 6
    buckets: int = 200_000

    def __post_init__(self) -> None:
        if not 1 <= self.shortest <= self.longest or self.buckets < 1:
            raise UserError(
                f"n-grams of {self.shortest} to {self.longest} characters in {self.buckets} buckets are invalid: "
                "give a shortest of at least 1, a longest that is no shorter, and at least one bucket."
            )

    def ngrams(self, word: str) -> list[str]:
        """The n-grams of a word with its end marks, except the whole."""
        marked = f"<{word}>"
        return [
            marked[start : start + length]
            for start in range(len(marked))
            for length in range(self.shortest, self.longest + 1)
            if start + length <= len(marked) and length < len(marked)
        ]

    def rows(self, word: str) -> list[int]:
        """The row of each n-gram among the buckets."""
        return [zlib.crc32(ngram.encode()) % self.buckets for ngram in self.ngrams(word)]

    def bags(self, words: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """For every word its row and those of its n-grams, which follow the words: start offsets (V + 1,) and rows."""
        starts, rows = [0], []
        for number, word in enumerate(words):
            rows.append(number)
            rows.extend(len(words) + row for row in self.rows(word))
            starts.append(len(rows))
        return np.array(starts), np.array(rows, dtype=np.int32)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The hyperparameters of word2vec."""

    method: str = "skipgram"  # "skipgram": each neighbour predicts; "cbow": their mean does
    width: int = 100  # D
    window: int = 5  # neighbours on each side at most; drawn from 1 to this for every word
    negatives: int = 5  # negative samples per window; unused with hierarchical softmax
    hierarchical: bool = False  # hierarchical softmax instead of negative sampling
    sample: float = 1e-3  # words more frequent than this share are subsampled; 0: none
    epochs: int = 5
    rate: float | None = None  # learning rate; None: 0.025 for skip-gram, 0.06 for CBOW; decays linearly ...
    last_rate: float = 0.0001  # ... to this
    subwords: Subwords | None = None  # n-grams of characters, as in fastText
    threads: int | None = None  # None: all cores; 1 is reproducible bit for bit
    device: str = "auto"  # cpu, cuda or cuda:N; auto: a GPU for large corpora (`device.py`)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UserError(f'method is "{self.method}", which is unknown: use {" or ".join(METHODS)}.')
        least: dict[str, Any] = {"width": 1, "window": 1, "epochs": 1, "negatives": 0 if self.hierarchical else 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least {bound}.")
        if self.threads is not None and self.threads < 1:
            raise UserError(f"threads is {self.threads}: it must be at least 1.")
        if self.device not in ("auto", "cpu") and self.device.split(":")[0] != "cuda":
            raise UserError(f'device is "{self.device}", which is unknown: use auto, cpu, cuda or cuda:N.')
        if not 0 <= self.sample <= 1:
            raise UserError(f"sample is {self.sample}: it is a share of the corpus, from 0 (off) to 1.")
        if not 0 < self.last_rate <= self.first_rate:
            raise UserError(
                f"rate is {self.first_rate} and last_rate {self.last_rate}: both are above 0 and must not rise."
            )

    @property
    def first_rate(self) -> float:
        """`rate`, or the default of the method."""
        return self.rate if self.rate is not None else RATES[self.method]

    def rate_at(self, done: float) -> float:
        """The learning rate after a fraction `done` (0 to 1) of the training."""
        return max(self.first_rate + (self.last_rate - self.first_rate) * done, self.last_rate)
