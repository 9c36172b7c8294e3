"""A corpus made for tests, where words of one parity keep together."""

import numpy as np

from harken.embeddings.corpus import Corpus
from harken.embeddings.vocabulary import Vocabulary


def made_corpus(words: int = 12, sentences: int = 60, seed: int = 3) -> Corpus:
    """Words by Zipf's law; a word is likeliest beside those of its own parity."""
    generator = np.random.default_rng(seed)
    weights = 1 / np.arange(1, words + 1)
    stream: list[int] = []
    for _ in range(sentences):
        parity = generator.integers(2)
        mine = np.where(np.arange(words) % 2 == parity, weights, 0.02 * weights)
        stream += [*generator.choice(words, size=generator.integers(1, 12), p=mine / mine.sum()).tolist(), -1]
    ids = np.array(stream, dtype=np.int32)
    counts = np.bincount(ids[ids >= 0], minlength=words)
    return Corpus(Vocabulary([f"word{number}" for number in range(words)], counts), ids, int(counts.sum()))
