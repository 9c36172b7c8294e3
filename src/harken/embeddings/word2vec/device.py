"""Train word2vec with torch, as a GPU wants it: many windows at a time (`harken.embeddings.kernels.word2vec_batch`).

>>> from harken.embeddings.io.corpus import Corpus
>>> from harken.embeddings.vocabulary import Vocabulary
>>> text = np.array([0, 1, 2, -1, 0, 2, 1, -1] * 50, dtype=np.int32)
>>> corpus = Corpus(Vocabulary(["the", "cat", "sat"], [100, 100, 100]), text, 300)
>>> learnt = train_on_device(corpus, Settings(width=8, sample=0, epochs=8), "cpu")
>>> learnt.inputs.shape, len(learnt.progress.losses), learnt.progress.losses[-1] < learnt.progress.losses[0]
((3, 8), 8, True)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from harken.embeddings.io.corpus import Corpus
from harken.embeddings.learnt import Learnt
from harken.embeddings.word2vec.sampling import alias_table, span_state
from harken.embeddings.word2vec.settings import Settings
from harken.embeddings.word2vec.threads import Progress
from harken.errors import UserError

if TYPE_CHECKING:
    from torch import Generator, Tensor

PIECE = 4_000_000  # ids that are on the device at once
DRAWN = 262_144  # windows whose neighbours and wrong answers are drawn at once
BATCH = 8192  # windows that are learnt at once
PAYS = 50_000_000  # words in all epochs from which a GPU is taken: two cores need half a minute for as many
LEAST, GROWTH = 32, 64  # a batch has at least the first, and at most the last part of what was learnt before it


def choose_device(corpus: Corpus, settings: Settings) -> str:
    """What `settings.device` comes to: auto is a GPU where there is one and the text is large enough for it to pay.

    Raises:
        UserError: a GPU is asked for and there is none.
    """
    if settings.device == "cpu":
        return "cpu"
    asked = settings.device != "auto"
    on_cpu = settings.hierarchical or settings.subwords or settings.threads is not None
    if not asked and (on_cpu or corpus.words_read * settings.epochs < PAYS):
        return "cpu"
    import torch

    if asked and settings.device.split(":")[0] == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device is {settings.device}, but torch sees no GPU here: leave it out, or say cpu.")
    return settings.device if asked else "cuda" if torch.cuda.is_available() else "cpu"


@dataclass
class Tables:
    """What draws need, on the device."""

    keep: Tensor  # (V,)
    height: Tensor  # (V,)
    other: Tensor  # (V,)


def train_on_device(
    corpus: Corpus, settings: Settings, device: str, tell: Callable[[Progress], None] = lambda progress: None
) -> Learnt:
    """As `train_word2vec`; draws are others, by the same law. On a GPU sums are made in no fixed order.

    Raises:
        UserError: a tree or n-grams, which are trained on the CPU, or the training diverged.
    """
    import torch

    if settings.hierarchical or settings.subwords:
        raise UserError("A tree and n-grams are trained on the CPU: leave the device out, or say cpu.")
    vocabulary, stream = corpus.vocabulary, corpus.stream
    generator = np.random.default_rng(settings.seed)
    first = generator.random((len(vocabulary), settings.width), dtype=np.float32)
    inputs = torch.from_numpy((np.float32(2) * first - np.float32(1)) / np.float32(settings.width)).to(device)
    outputs = torch.zeros_like(inputs)
    height, other = alias_table(vocabulary.counts)
    keep = torch.from_numpy(vocabulary.keep_probabilities(settings.sample).astype(np.float32))
    tables = Tables(*(one.to(device) for one in (keep, torch.from_numpy(height), torch.from_numpy(other).long())))
    progress = Progress(
        settings.epochs, corpus.words_read * settings.epochs, sums=[0.0] * settings.epochs, terms=[0] * settings.epochs
    )
    began = time.perf_counter()
    try:
        for epoch in range(settings.epochs):
            for number, start in enumerate(range(0, len(stream), PIECE)):
                draws = torch.Generator(device)
                draws.manual_seed(span_state(settings.seed, epoch, number) >> 1)
                part = np.asarray(stream[start : start + PIECE])
                ids = torch.from_numpy(part.astype(np.int64)).to(device)
                before = epoch + start / len(stream)
                loss, terms = _train_piece(
                    ids, (inputs, outputs), tables, settings, draws, before, len(part) / len(stream)
                )
                if loss != loss:
                    raise UserError(f"The loss is no number any more (epoch {epoch + 1}): lower the learning rate.")
                progress.sums[epoch] += loss
                progress.terms[epoch] += terms
                progress.words = round((before + len(part) / len(stream)) * corpus.words_read)
                progress.seconds = time.perf_counter() - began
                tell(progress)
    except KeyboardInterrupt:
        progress.stopped = True
    progress.seconds = time.perf_counter() - began
    return Learnt(inputs.cpu().numpy(), outputs.cpu().numpy(), progress, device)


def _train_piece(
    ids: Tensor,
    matrices: tuple[Tensor, Tensor],
    tables: Tables,
    settings: Settings,
    draws: Generator,
    before: float,
    share: float,
) -> tuple[float, int]:
    """One piece, its epochs so far being `before`; the summed loss and what it is summed over."""
    import torch

    from harken.embeddings.kernels.word2vec_batch import step, thinned, windows, wrong_answers

    kept = thinned(ids, tables.keep, draws)
    reach = torch.randint(1, settings.window + 1, (len(kept),), generator=draws, device=ids.device)
    is_cbow = settings.method == "cbow"
    loss, terms = ids.new_zeros((), dtype=torch.float64), ids.new_zeros((), dtype=torch.float64)
    for first in range(0, len(kept), DRAWN):
        last = min(first + DRAWN, len(kept))
        around, known = windows(kept, first, last, settings.window, reach)
        words = kept[first:last].clamp(min=0)
        rows, counted = wrong_answers(words, settings.negatives, tables.height, tables.other, draws)
        terms += (known.amax(1) if is_cbow else known).sum()
        done = round(len(kept) * before / share) + first  # windows so far
        for start, stop in batches(last - first, done):
            part = slice(start, stop)
            rate = settings.rate_at((before + share * (first + start) / len(kept)) / settings.epochs)
            loss += step(*matrices, around[part], known[part], rows[part], counted[part], rate, is_cbow)
    return float(loss), round(float(terms))


def batches(length: int, before: int) -> Iterator[tuple[int, int]]:
    """Windows that are learnt together: few at first, when all vectors are still alike, and `BATCH` later on.

    >>> list(batches(100, 0)), [stop - start for start, stop in batches(20_000, 10**6)]
    ([(0, 32), (32, 64), (64, 96), (96, 100)], [8192, 8192, 3616])
    """
    start = 0
    while start < length:
        stop = min(length, start + min(BATCH, max(LEAST, (before + start) // GROWTH)))
        yield start, stop
        start = stop
