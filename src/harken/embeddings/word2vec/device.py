"""Train word2vec with torch on a GPU, many windows at a time (`harken.embeddings.word2vec.batch_kernel`).

>>> from harken.embeddings.corpus import Corpus
>>> from harken.embeddings.vocabulary import Vocabulary
>>> text = np.array([0, 1, 2, -1, 0, 2, 1, -1] * 50, dtype=np.int32)
>>> corpus = Corpus(Vocabulary(["the", "cat", "sat"], [100, 100, 100]), text, 300)
>>> trained = train_on_device(corpus, Settings(width=8, sample=0, epochs=8), "cpu")
>>> trained.inputs.shape, len(trained.progress.losses), trained.progress.losses[-1] < trained.progress.losses[0]
((3, 8), 8, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harken.embeddings.corpus import Corpus
from harken.embeddings.training import Progress, Trained, run_spans, span_sizes
from harken.embeddings.word2vec.sampling import alias_table, initial_vectors, span_state
from harken.embeddings.word2vec.settings import Settings
from harken.errors import UserError

if TYPE_CHECKING:
    from torch import Generator, Tensor

CHUNK = 4_000_000  # ids on the device at once
DRAWN = 262_144  # windows whose neighbours and negative samples are drawn at once
BATCH = 8192  # windows per update
GPU_WORDS = 50_000_000  # words in all epochs from which auto uses a GPU: two cores need half a minute for as many
LEAST, GROWTH = 32, 64  # a batch has at least LEAST windows, else at most 1 / GROWTH of those before it


def choose_device(corpus: Corpus, settings: Settings) -> str:
    """The device to use: auto is a GPU where there is one and the text is large enough to be faster there.

    Raises:
        UserError: cuda was given and torch sees no GPU.
    """
    if settings.device == "cpu":
        return "cpu"
    explicit = settings.device != "auto"
    on_cpu = settings.hierarchical or settings.subwords or settings.threads is not None
    if not explicit and (on_cpu or corpus.words_read * settings.epochs < GPU_WORDS):
        return "cpu"
    import torch

    if explicit and settings.device.split(":")[0] == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device is {settings.device}, but torch sees no GPU: leave it out, or use cpu.")
    return settings.device if explicit else "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Tables:
    """Sampling tables on the device."""

    keep: Tensor  # (V,)
    height: Tensor  # (V,)
    other: Tensor  # (V,)


def train_on_device(
    corpus: Corpus, settings: Settings, device: str, tell: Callable[[Progress], None] = lambda progress: None
) -> Trained:
    """Train as `train_word2vec` does with other random draws. On a GPU the order of sums is not deterministic.

    Raises:
        UserError: hierarchical softmax or n-grams, which need the CPU, or the training diverged.
    """
    import torch

    if settings.hierarchical or settings.subwords:
        raise UserError("Hierarchical softmax and n-grams are trained on the CPU: leave the device out, or use cpu.")
    vocabulary, stream = corpus.vocabulary, corpus.stream
    inputs = torch.from_numpy(initial_vectors(len(vocabulary), settings.width, settings.seed)).to(device)
    outputs = torch.zeros_like(inputs)
    height, other = alias_table(vocabulary.counts)
    keep = torch.from_numpy(vocabulary.keep_probabilities(settings.sample).astype(np.float32))
    tables = Tables(*(table.to(device) for table in (keep, torch.from_numpy(height), torch.from_numpy(other).long())))
    cuts = [*range(0, len(stream), CHUNK), len(stream)]

    def train(epoch: int, chunk: int, done: float) -> tuple[float, int]:
        draws = torch.Generator(device)
        draws.manual_seed(span_state(settings.seed, epoch, chunk) >> 1)
        part = np.asarray(stream[cuts[chunk] : cuts[chunk + 1]])
        ids = torch.from_numpy(part.astype(np.int64)).to(device)
        before = epoch + cuts[chunk] / len(stream)
        return _train_chunk(ids, (inputs, outputs), tables, settings, draws, before, len(part) / len(stream))

    progress = run_spans(train, span_sizes(corpus, cuts), epochs=settings.epochs, threads=1, tell=tell)
    return Trained(inputs.cpu().numpy(), outputs.cpu().numpy(), progress, device)


def _train_chunk(
    ids: Tensor,
    matrices: tuple[Tensor, Tensor],
    tables: Tables,
    settings: Settings,
    draws: Generator,
    before: float,
    share: float,
) -> tuple[float, int]:
    """Train on one chunk after `before` epochs; returns the summed loss and the number of predictions."""
    import torch

    from harken.embeddings.word2vec.batch_kernel import negative_samples, step, subsample, windows

    sampled = subsample(ids, tables.keep, draws)
    reach = torch.randint(1, settings.window + 1, (len(sampled),), generator=draws, device=ids.device)
    is_cbow = settings.method == "cbow"
    loss, predictions = ids.new_zeros((), dtype=torch.float64), ids.new_zeros((), dtype=torch.float64)
    for first in range(0, len(sampled), DRAWN):
        last = min(first + DRAWN, len(sampled))
        around, known = windows(sampled, first, last, settings.window, reach)
        words = sampled[first:last].clamp(min=0)
        rows, counted = negative_samples(words, settings.negatives, tables.height, tables.other, draws)
        predictions += (known.amax(1) if is_cbow else known).sum()
        done = round(len(sampled) * before / share) + first  # windows so far
        for start, stop in batches(last - first, done):
            part = slice(start, stop)
            rate = settings.rate_at((before + share * (first + start) / len(sampled)) / settings.epochs)
            loss += step(*matrices, around[part], known[part], rows[part], counted[part], rate, is_cbow)
    return float(loss), round(float(predictions))


def batches(length: int, before: int) -> Iterator[tuple[int, int]]:
    """Batches of windows: small at first, when all vectors are still alike, `BATCH` later.

    >>> list(batches(100, 0)), [stop - start for start, stop in batches(20_000, 10**6)]
    ([(0, 32), (32, 64), (64, 96), (96, 100)], [8192, 8192, 3616])
    """
    start = 0
    while start < length:
        stop = min(length, start + min(BATCH, max(LEAST, (before + start) // GROWTH)))
        yield start, stop
        start = stop
