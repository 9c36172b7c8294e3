"""All pairs of words that occur together, in tiles: what GloVe trains on.

Tile (r, c) has the pairs whose row is in the r-th block of words and whose column in the c-th. A block's vectors fit
the cache, so a tile is trained without waiting for memory. Pairs that would not fit memory lie in a mapped file.

>>> from harken.embeddings.vocabulary import Vocabulary
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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.io.corpus import Corpus
from harken.embeddings.word2vec.sampling import span_state

SIDE = 512  # words in a block: 512 rows and columns of 2 x 100 numbers are a megabyte, about a second-level cache
IN_MEMORY = 4_000_000_000  # bytes of pairs; more go to a file
PAIR_BYTES = 16


@dataclass
class Pairs:
    """Pairs i, j with log x and f(x), tile by tile."""

    rows: NDArray[np.int32]
    columns: NDArray[np.int32]
    logs: NDArray[np.float32]
    weights: NDArray[np.float32]
    tiles: NDArray[np.int64]  # where each tile begins, and the end
    folder: Any = None  # a temporary folder that holds them and goes when they do

    def __len__(self) -> int:
        return len(self.rows)


def count_pairs(
    corpus: Corpus, *, window: int, cap: float, power: float, threads: int, seed: int, folder: str | Path | None = None
) -> Pairs:
    """Count, weigh, and shuffle within tiles; the same for any number of threads."""
    from harken.embeddings.kernels.cooccurrence import places_by_word, scan_rows, shuffle

    size = len(corpus.vocabulary)
    stream = np.asarray(corpus.stream)
    starts = np.concatenate([[0], corpus.vocabulary.counts.cumsum()])
    places = np.empty(int(starts[-1]), dtype=np.int32 if len(stream) < 2**31 else np.int64)
    places_by_word(stream, starts, places)
    blocks = -(-size // SIDE)
    nothing = Pairs(**_arrays(0, None), tiles=np.zeros(0, dtype=np.int64))
    following = np.zeros(blocks * blocks, dtype=np.int64)

    def scan(block: int, pairs: Pairs) -> None:
        into = (pairs.rows, pairs.columns, pairs.logs, pairs.weights)
        cap_and_power = np.float32(cap), np.float32(power)
        scan_rows(stream, starts, places, block, SIDE, window, following, *into, *cap_and_power)

    _each(lambda block: scan(block, nothing), range(blocks), threads)
    tiles = np.concatenate([[0], following.cumsum()])
    home = tempfile.TemporaryDirectory(prefix="harken-pairs-", dir=folder) if _is_large(tiles[-1]) else None
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


def _is_large(count: int) -> bool:
    return count * PAIR_BYTES > IN_MEMORY


def _arrays(count: int, folder: Path | None) -> dict[str, NDArray[Any]]:
    kinds: dict[str, Any] = {"rows": np.int32, "columns": np.int32, "logs": np.float32, "weights": np.float32}
    if folder is None:
        return {name: np.zeros(count, dtype=kind) for name, kind in kinds.items()}
    return {
        name: np.asarray(np.memmap(folder / name, dtype=kind, mode="w+", shape=(count,)))
        for name, kind in kinds.items()
    }
