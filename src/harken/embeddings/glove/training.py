"""Train GloVe on a corpus: count pairs, step through them tile by tile, add the two vectors of each word.

>>> from harken.embeddings.vocabulary import Vocabulary
>>> text = np.array([0, 1, 2, -1, 0, 2, 1, -1] * 50, dtype=np.int32)
>>> corpus = Corpus(Vocabulary(["the", "cat", "sat"], [100, 100, 100]), text, 300)
>>> learnt = train_glove(corpus, GloveSettings(width=8, threads=1))
>>> learnt.inputs.shape, learnt.progress.losses[-1] < learnt.progress.losses[0]
((3, 8), True)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.glove.pairs import Pairs, count_pairs
from harken.embeddings.io.corpus import Corpus
from harken.embeddings.learnt import Learnt, require_numba
from harken.embeddings.word2vec.settings import cores
from harken.embeddings.word2vec.threads import Progress, run_spans
from harken.errors import UserError

LANES = 16
LEAST, MOST = 4_000, 60_000  # pairs that a thread takes at once: the tiles of rare words are small, others large


@dataclass(frozen=True, kw_only=True)
class GloveSettings:
    """How to train GloVe; the defaults are those of the paper's program."""

    method: str = "glove"
    width: int = 100  # D
    window: int = 10  # neighbours on each side
    cap: float = 10.0  # x_max: pairs seen more often weigh no more
    power: float = 0.75  # alpha
    epochs: int = 15
    rate: float = 0.05
    threads: int | None = None  # None: all cores; 1 repeats to the bit
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "window", "epochs", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.cap <= 0 or self.rate <= 0:
            raise UserError(f"cap is {self.cap} and rate {self.rate}: both must be above 0.")


def train_glove(
    corpus: Corpus, settings: GloveSettings, tell: Callable[[Progress], None] = lambda progress: None
) -> Learnt:
    """Train; `tell` is called twice a second. After Ctrl-C what was learnt comes back, with `progress.stopped`.

    Progress counts pairs, not words.

    Raises:
        UserError: numba is not installed, no two words stand together, or the training diverged.
    """
    require_numba()
    from harken.embeddings.kernels.glove import train_pairs

    threads = settings.threads or cores()
    pairs = count_pairs(
        corpus, window=settings.window, cap=settings.cap, power=settings.power, threads=threads, seed=settings.seed
    )
    if len(pairs) == 0:
        raise UserError("No two known words stand in one sentence: give text with a sentence, not a word, a line.")
    words, contexts = _sides(len(corpus.vocabulary), settings)
    spans = _spans(pairs)
    orders = [np.random.default_rng((settings.seed, epoch)).permutation(len(spans)) for epoch in range(settings.epochs)]
    rate = np.float32(settings.rate)

    def train(epoch: int, span: int, done: float) -> tuple[float, int]:
        start, stop = spans[orders[epoch][span]]
        return train_on(start, stop), stop - start

    def train_on(start: int, stop: int) -> float:
        return train_pairs(pairs.rows, pairs.columns, pairs.logs, pairs.weights, start, stop, words, contexts, rate)

    train_on(0, 0)  # compiles before the clock runs
    mean = round(len(pairs) / len(spans))
    sizes = [mean] * (len(spans) - 1) + [len(pairs) - mean * (len(spans) - 1)]
    progress = run_spans(train, sizes, epochs=settings.epochs, threads=threads, tell=tell)
    width = settings.width
    return Learnt(words[:, 0, :width] + contexts[:, 0, :width], contexts[:, 0, :width], progress)


def _sides(size: int, settings: GloveSettings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Words and contexts: vectors with the bias behind them, and sums of squares, (V, 2, padded + 1)."""
    columns = -(-settings.width // LANES) * LANES + 1
    generator = np.random.default_rng(settings.seed)
    both = []
    for _ in range(2):
        side = np.zeros((size, 2, columns), dtype=np.float32)
        first = generator.random((size, settings.width + 1), dtype=np.float32)
        first = (first - np.float32(0.5)) / np.float32(settings.width)
        side[:, 0, : settings.width], side[:, 0, -1] = first[:, :-1], first[:, -1]
        side[:, 1] = 1
        both.append(side)
    return both[0], both[1]


def _spans(pairs: Pairs) -> list[tuple[int, int]]:
    """Tiles one by one, small ones together with those that follow, large ones in pieces."""
    spans: list[tuple[int, int]] = []
    start = 0
    for stop in pairs.tiles[1:].tolist():
        if stop - start >= LEAST or (stop == len(pairs) and stop > start):
            pieces = -(-(stop - start) // MOST)
            cuts = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
            spans += pairwise(cuts)
            start = stop
    return spans
