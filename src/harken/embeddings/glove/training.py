"""Train GloVe on a corpus: count co-occurring pairs, step through them tile by tile, add the two vectors of each word.

Tile (r, c) has the pairs whose row is in the r-th block of words and whose column in the c-th. The vectors of a block
fit the cache, so a tile is trained without waiting for memory. Pairs that exceed memory are in a memory-mapped file.

>>> from harken.embeddings.vocabulary import Vocabulary
>>> text = np.array([0, 1, 2, -1, 0, 2, 1, -1] * 50, dtype=np.int32)
>>> corpus = Corpus(Vocabulary(["the", "cat", "sat"], [100, 100, 100]), text, 300)
>>> trained = train_glove(corpus, GloveSettings(width=8, threads=1))
>>> trained.inputs.shape, trained.progress.losses[-1] < trained.progress.losses[0]
((3, 8), True)
>>> corpus = Corpus(Vocabulary(["a", "b"], [2, 2]), np.array([0, 1, 1, -1, 0, -1], dtype=np.int32), 4)
>>> pairs = count_pairs(corpus, window=2, cap=10.0, power=0.75, threads=1, seed=1)
>>> sorted(zip(pairs.rows.tolist(), pairs.columns.tolist(), np.exp(pairs.logs).round(3).tolist()))
[(0, 1, 1.5), (1, 0, 1.5), (1, 1, 2.0)]
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.corpus import Corpus
from harken.embeddings.training import Progress, Trained, require_numba, run_spans
from harken.embeddings.word2vec.sampling import span_state
from harken.errors import UserError
from harken.machine import available_cores

LANES = 16
LEAST, MOST = 4_000, 60_000  # pairs per span: tiles of rare words are joined, large ones split
SIDE = 512  # words in a block: 512 rows and columns of 2 x 100 numbers are a megabyte, about a second-level cache
IN_MEMORY = 4_000_000_000  # bytes of pairs; more go to a file
PAIR_BYTES = 16


@dataclass
class Pairs:
    """Pairs i, j with log x_ij and f(x_ij), tile by tile."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    logs: NDArray[np.float32]
    weights: NDArray[np.float32]
    tiles: NDArray[np.int64]  # offsets of the tiles, and the end
    folder: Any = None  # a temporary folder with the arrays, deleted with them

    def __len__(self) -> int:
        return len(self.rows)


def count_pairs(
    corpus: Corpus, *, window: int, cap: float, power: float, threads: int, seed: int, folder: str | Path | None = None
) -> Pairs:
    """Count, weight, and shuffle within tiles; the result does not depend on the number of threads."""
    from harken.embeddings.glove.kernels import positions_by_word, scan_rows, shuffle

    size = len(corpus.vocabulary)
    stream = np.asarray(corpus.stream)
    starts = np.concatenate([[0], corpus.vocabulary.counts.cumsum()])
    positions = np.empty(int(starts[-1]), dtype=np.int32 if len(stream) < 2**31 else np.int64)
    positions_by_word(stream, starts, positions)
    blocks = -(-size // SIDE)
    counting = Pairs(**_arrays(0, None), tiles=np.zeros(0, dtype=np.int64))
    following = np.zeros(blocks * blocks, dtype=np.int64)

    def scan(block: int, pairs: Pairs) -> None:
        into = (pairs.rows, pairs.columns, pairs.logs, pairs.weights)
        cap_and_power = np.float32(cap), np.float32(power)
        scan_rows(stream, starts, positions, block, SIDE, window, following, *into, *cap_and_power)

    _each(lambda block: scan(block, counting), range(blocks), threads)
    tiles = np.concatenate([[0], following.cumsum()])
    is_large = tiles[-1] * PAIR_BYTES > IN_MEMORY
    home = tempfile.TemporaryDirectory(prefix="harken-pairs-", dir=folder) if is_large else None
    pairs = Pairs(**_arrays(int(tiles[-1]), Path(home.name) if home else None), tiles=tiles, folder=home)
    following[:] = tiles[:-1]
    _each(lambda block: scan(block, pairs), range(blocks), threads)

    def mix(tile: int) -> None:
        state = np.uint64(span_state(seed, 0, tile))
        shuffle(pairs.rows, pairs.columns, pairs.logs, pairs.weights, tiles[tile], tiles[tile + 1], state)

    _each(mix, range(len(tiles) - 1), threads)
    return pairs


def _each(work: Callable[[int], None], numbers: Iterable[int], threads: int) -> None:
    with ThreadPoolExecutor(threads, "harken-pairs") as pool:
        for _ in pool.map(work, numbers):
            pass


def _arrays(count: int, folder: Path | None) -> dict[str, NDArray[Any]]:
    kinds: dict[str, Any] = {"rows": np.int32, "columns": np.int32, "logs": np.float32, "weights": np.float32}
    if folder is None:
        return {name: np.zeros(count, dtype=kind) for name, kind in kinds.items()}
    return {
        name: np.asarray(np.memmap(folder / name, dtype=kind, mode="w+", shape=(count,)))
        for name, kind in kinds.items()
    }


@dataclass(frozen=True, kw_only=True)
class GloveSettings:
    """The hyperparameters of GloVe; the defaults are those of the authors' program."""

    method: str = "glove"
    width: int = 100  # D
    window: int = 10  # neighbours on each side
    cap: float = 10.0  # x_max: the weight of more frequent pairs is constant
    power: float = 0.75  # alpha
    epochs: int = 15
    rate: float = 0.05
    threads: int | None = None  # None: all cores; 1 is reproducible bit for bit
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("width", "window", "epochs", "threads"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.cap <= 0 or self.rate <= 0:
            raise UserError(f"cap is {self.cap} and rate {self.rate}: both must be above 0.")


def train_glove(
    corpus: Corpus, settings: GloveSettings, tell: Callable[[Progress], None] = lambda progress: None
) -> Trained:
    """Train; `tell` is called twice a second. After Ctrl-C it returns the matrices so far, with `progress.stopped`.

    Progress counts pairs, not words.

    Raises:
        UserError: numba is not installed, no two words co-occur, or the training diverged.
    """
    require_numba()
    from harken.embeddings.glove.kernels import train_pairs

    threads = settings.threads or available_cores()
    pairs = count_pairs(
        corpus, window=settings.window, cap=settings.cap, power=settings.power, threads=threads, seed=settings.seed
    )
    if len(pairs) == 0:
        raise UserError("No sentence has two known words: give text with one sentence, not one word, a line.")
    words, contexts = _sides(len(corpus.vocabulary), settings)
    spans = _spans(pairs)
    orders = [np.random.default_rng((settings.seed, epoch)).permutation(len(spans)) for epoch in range(settings.epochs)]
    rate = np.float32(settings.rate)

    def train(epoch: int, span: int, done: float) -> tuple[float, int]:
        start, stop = spans[orders[epoch][span]]
        return train_on(start, stop), stop - start

    def train_on(start: int, stop: int) -> float:
        return train_pairs(pairs.rows, pairs.columns, pairs.logs, pairs.weights, start, stop, words, contexts, rate)

    train_on(0, 0)  # compiles before timing starts
    mean = round(len(pairs) / len(spans))
    sizes = [mean] * (len(spans) - 1) + [len(pairs) - mean * (len(spans) - 1)]
    progress = run_spans(train, sizes, epochs=settings.epochs, threads=threads, tell=tell)
    width = settings.width
    return Trained(words[:, 0, :width] + contexts[:, 0, :width], contexts[:, 0, :width], progress)


def _sides(size: int, settings: GloveSettings) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Words and contexts, each (V, 2, padded + 1): vectors followed by the bias, and sums of squares."""
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
    """Spans of pairs: tiles, small ones joined with the following, large ones split."""
    spans: list[tuple[int, int]] = []
    start = 0
    for stop in pairs.tiles[1:].tolist():
        if stop - start >= LEAST or (stop == len(pairs) and stop > start):
            pieces = -(-(stop - start) // MOST)
            cuts = [start + (stop - start) * piece // pieces for piece in range(pieces + 1)]
            spans += pairwise(cuts)
            start = stop
    return spans
