"""Train word2vec on a corpus: matrices, tables and spans of text for the kernel, threads, the result.

>>> from harken.embeddings.corpus import Corpus
>>> from harken.embeddings.vocabulary import Vocabulary
>>> text = np.array([0, 1, 2, -1, 0, 2, 1, -1] * 50, dtype=np.int32)
>>> corpus = Corpus(Vocabulary(["the", "cat", "sat"], [100, 100, 100]), text, 300)
>>> trained = train_word2vec(corpus, Settings(width=8, sample=0, threads=1))
>>> trained.inputs.shape, len(trained.progress.losses), trained.progress.losses[-1] < trained.progress.losses[0]
((3, 8), 5, True)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.corpus import Corpus
from harken.embeddings.training import Progress, Trained, require_numba, run_spans, span_sizes
from harken.embeddings.word2vec.device import choose_device, train_on_device
from harken.embeddings.word2vec.sampling import alias_table, huffman_tree, initial_vectors, span_state
from harken.embeddings.word2vec.settings import Settings
from harken.machine import available_cores

SPAN = 10_000  # words per learning rate
LANES = 16  # rows are padded to a multiple of this, so that vectorised loops have no remainder
EMPTY = np.zeros(0, dtype=np.int64)


def train_word2vec(
    corpus: Corpus, settings: Settings, tell: Callable[[Progress], None] = lambda progress: None
) -> Trained:
    """Train; `tell` is called twice a second. After Ctrl-C it returns the matrices so far, with `progress.stopped`.

    Raises:
        UserError: numba or the device is missing, or the training diverged.
    """
    device = choose_device(corpus, settings)
    if device != "cpu":
        return train_on_device(corpus, settings, device, tell)
    require_numba()
    from harken.embeddings.word2vec.kernel import train_span

    vocabulary = corpus.vocabulary
    size = len(vocabulary)
    buckets = settings.subwords.buckets if settings.subwords else 0
    inputs = padded_zeros(size + buckets, settings.width)
    inputs[:, : settings.width] = initial_vectors(size + buckets, settings.width, settings.seed)
    outputs = padded_zeros(size, settings.width)
    keep = vocabulary.keep_probabilities(settings.sample)
    height, other = alias_table(vocabulary.counts)
    bag_starts, bags = EMPTY, EMPTY.astype(np.int32)
    if settings.subwords:
        bag_starts, bags = settings.subwords.bags(vocabulary.words)
    tree_starts, tree_nodes, tree_labels = EMPTY, EMPTY.astype(np.int32), EMPTY.astype(np.float32)
    if settings.hierarchical:
        tree = huffman_tree(vocabulary.counts)
        tree_starts, tree_nodes, tree_labels = tree.starts, tree.nodes, tree.labels
    stream = np.asarray(corpus.stream)
    cuts = span_cuts(len(stream))

    def train(epoch: int, span: int, done: float) -> tuple[float, int]:
        return train_on(stream[cuts[span] : cuts[span + 1]], epoch, span, done)

    def train_on(ids: NDArray[np.int32], epoch: int, span: int, done: float) -> tuple[float, int]:
        return train_span(
            ids,
            keep,
            height,
            other,
            tree_starts,
            tree_nodes,
            tree_labels,
            bag_starts,
            bags,
            inputs,
            outputs,
            settings.window,
            0 if settings.hierarchical else settings.negatives,
            settings.method == "cbow",
            np.float32(settings.rate_at(done)),
            np.uint64(span_state(settings.seed, epoch, span)),
        )

    train_on(stream[:0], 0, 0, 0.0)  # compiles before timing starts
    threads = settings.threads or available_cores()
    progress = run_spans(train, span_sizes(corpus, cuts), epochs=settings.epochs, threads=threads, tell=tell)
    return Trained(inputs[:, : settings.width], outputs[:, : settings.width], progress)


def span_cuts(length: int) -> list[int]:
    """The span boundaries of a stream: spans of 10,000 words, or twenty spans of a short stream."""
    span = max(1, min(SPAN, max(500, length // 20)))
    return [*range(0, length, span), length]


def padded_zeros(rows: int, width: int) -> NDArray[np.float32]:
    """Zeros whose rows are padded to whole vector registers and aligned to cache lines where possible."""
    columns = -(-width // LANES) * LANES
    flat = np.zeros(rows * columns + LANES, dtype=np.float32)
    skip = -(flat.ctypes.data // 4) % LANES
    return flat[skip : skip + rows * columns].reshape(rows, columns)
