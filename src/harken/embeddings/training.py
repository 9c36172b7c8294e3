"""The training loop of word2vec and GloVe: threads over spans of a text, progress, and the trained matrices.

A span knows its random numbers and its learning rate from its position alone, so the draws do not depend on the number
of threads; the result does, where two threads update the same row at once. Ctrl-C lets every thread finish its span
and keeps the matrices.

>>> progress = run_spans(lambda epoch, span, done: (1.0, 1), [10, 10], epochs=2, threads=1)
>>> progress.losses, progress.words, progress.stopped
([1.0, 1.0], 40, False)

>>> from harken.embeddings.word2vec.settings import Settings
>>> from harken.embeddings.vocabulary import Vocabulary
>>> corpus = Corpus(Vocabulary(["a", "b"], [2, 1]), np.array([0, 1, 0, -1]), 3)
>>> trained = Trained(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), Progress(1, 3, 3, 0.5, [6.0], [4]))
>>> vectors = trained.vectors(corpus, Settings(width=2))
>>> vectors.words, vectors.card["losses"], vectors.card["settings"]["window"]
(['a', 'b'], [1.5], 5)
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.corpus import Corpus
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.embeddings.glove.training import GloveSettings
    from harken.embeddings.word2vec.settings import Settings


@dataclass
class Trained:
    """The trained matrices and how training went."""

    inputs: NDArray[np.float32]  # (V, D): word vectors, followed by those of n-grams
    outputs: NDArray[np.float32]  # (V, D), or (V - 1, D) nodes of the Huffman tree
    progress: Progress
    device: str = "cpu"

    def vectors(self, corpus: Corpus, settings: Settings | GloveSettings) -> WordVectors:
        """The word vectors, those of the n-grams, and the training record."""
        size = len(corpus.vocabulary)
        matrix, ngrams = self.inputs[:size], None
        subwords = getattr(settings, "subwords", None)
        if subwords is not None:
            ngrams = self.inputs[size:]
            starts, rows = subwords.bags(corpus.vocabulary.words)
            matrix = np.add.reduceat(self.inputs[rows], starts[:-1]) / np.diff(starts)[:, None].astype(np.float32)
        record = {key: value for key, value in asdict(settings).items() if key != "subwords"} | {"device": self.device}
        return WordVectors(
            corpus.vocabulary.words,
            matrix,
            corpus.vocabulary.counts,
            subwords,
            ngrams,
            {
                "settings": record,
                "losses": [round(loss, 6) for loss in self.progress.losses],
                "words_trained": self.progress.words,
                "seconds": round(self.progress.seconds, 2),
                "stopped_early": self.progress.stopped,
            },
        )


def require_numba() -> None:
    """Raise a UserError where numba is missing: training needs it, using vectors does not."""
    if find_spec("numba") is None:
        raise UserError("Training word vectors needs numba, which is not installed: pip install numba.")


EVERY = 0.5  # seconds between two calls of `tell`


@dataclass
class Progress:
    """The state of a training run."""

    epochs: int
    total: int  # words in all epochs
    words: int = 0  # so far
    seconds: float = 0.0
    sums: list[float] = field(default_factory=list)  # summed loss of each epoch
    counts: list[int] = field(default_factory=list)  # predictions that each sum is over
    stopped: bool = False

    @property
    def done(self) -> float:
        """The fraction done, 0 to 1."""
        return self.words / self.total if self.total else 1.0

    @property
    def words_per_second(self) -> float:
        """Words per second so far."""
        return self.words / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimated time left; None before the first report."""
        return self.seconds * (1 - self.done) / self.done if self.done else None

    @property
    def losses(self) -> list[float]:
        """The mean loss of each epoch that has begun."""
        return [total / count for total, count in zip(self.sums, self.counts, strict=True) if count]


def span_sizes(corpus: Corpus, cuts: Sequence[int]) -> list[int]:
    """The words that the spans between these positions of the stream stand for: words read, as other tools count them.

    Words that the vocabulary leaves out are spread evenly over the stream.
    """
    share = corpus.words_read / len(corpus.stream)
    return [after - before for before, after in itertools.pairwise(round(cut * share) for cut in cuts)]


def run_spans(
    train: Callable[[int, int, float], tuple[float, int]],
    sizes: Sequence[int],
    *,
    epochs: int,
    threads: int,
    tell: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Call `train(epoch, span, done)`, which returns (summed loss, predictions), for every span of every epoch.

    Raises:
        UserError: the loss is NaN.
    """
    progress = Progress(epochs, sum(sizes) * epochs, sums=[0.0] * epochs, counts=[0] * epochs)
    turns = itertools.count()
    stop, lock = threading.Event(), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                turn = next(turns)
            epoch, span = divmod(turn, len(sizes))
            if epoch >= epochs:
                return
            loss, count = train(epoch, span, turn / (len(sizes) * epochs))
            if loss != loss:
                stop.set()
                raise UserError(f"The loss is NaN in epoch {epoch + 1}: lower the learning rate.")
            with lock:
                progress.sums[epoch] += loss
                progress.counts[epoch] += count
                progress.words += sizes[span]

    began = time.perf_counter()
    with ThreadPoolExecutor(threads, "harken-words") as pool:
        running: set[Future[None]] = {pool.submit(work) for _ in range(threads)}
        try:
            while running:
                finished, running = wait(running, timeout=EVERY)
                progress.seconds = time.perf_counter() - began
                tell(progress)
                for future in finished:
                    future.result()
        except KeyboardInterrupt:
            progress.stopped = True
        finally:
            stop.set()
    progress.seconds = time.perf_counter() - began
    return progress
