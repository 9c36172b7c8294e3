"""Which words stand near which, compiled: weighted co-occurrence counts of whole rows, without hash or sort.

x_ij = sum over every j within the window around an i of 1 / distance

Places are listed by word first (a counting sort). A row is then made by going to every place of its word and adding
what stands around into one array of V numbers, which the cache holds; the words touched are the row. Pairs go to
tiles: all with the same block of rows and of columns lie together, so that training on a tile finds its vectors in the
cache. Counting is done twice, once to know how large each tile is and once to write, and nothing is kept in between.

Definition: `harken.embeddings.glove.reference.cooccurrences`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harken.embeddings.kernels.word2vec_step import compiled

MULTIPLIER = np.uint64(6364136223846793005)
INCREMENT = np.uint64(1442695040888963407)


@compiled
def places_by_word(stream: Any, starts: Any, places: Any) -> None:
    """Fill `places` with the places of every word, word by word; `starts` (V + 1) says where each begins."""
    following = starts[:-1].copy()
    for place in range(len(stream)):
        word = stream[place]
        if word >= 0:
            places[following[word]] = place
            following[word] += 1


@compiled
def scan_rows(
    stream: Any,
    starts: Any,
    places: Any,
    block: Any,
    side: Any,
    window: Any,
    following: Any,
    rows: Any,
    columns: Any,
    logs: Any,
    weights: Any,
    cap: Any,
    power: Any,
) -> None:
    """The rows of one block: count the pairs of each tile into `following`, or write them where it points.

    It counts where there is no room to write (`rows` empty). With a pair go log x and its weight min(1, x / cap)^power.
    """
    size = len(starts) - 1
    blocks = (size + side - 1) // side
    sums = np.zeros(size, np.float32)
    touched = np.empty(size, np.int64)
    for word in range(block * side, min(size, (block + 1) * side)):
        found = 0
        for number in range(starts[word], starts[word + 1]):
            here = places[number]
            for step in (-1, 1):
                place = here
                for distance in range(1, window + 1):
                    place += step
                    if place < 0 or place >= len(stream) or stream[place] < 0:
                        break
                    other = stream[place]
                    if sums[other] == 0:
                        touched[found] = other
                        found += 1
                    sums[other] += np.float32(1) / np.float32(distance)
        for number in range(found):
            other = touched[number]
            tile = block * blocks + other // side
            if len(rows) > 0:
                slot = following[tile]
                rows[slot], columns[slot] = word, other
                logs[slot] = math.log(sums[other])
                weights[slot] = (sums[other] / cap) ** power if sums[other] < cap else 1.0
            following[tile] += 1
            sums[other] = 0


@compiled
def shuffle(rows: Any, columns: Any, logs: Any, weights: Any, start: Any, stop: Any, state: Any) -> None:
    """Fisher and Yates, on the pairs from start to stop."""
    for last in range(stop - 1, start, -1):
        state = state * MULTIPLIER + INCREMENT
        other = start + np.int64(np.float64(state >> np.uint64(11)) * 2.0**-53 * np.float64(last - start + 1))
        rows[last], rows[other] = rows[other], rows[last]
        columns[last], columns[other] = columns[other], columns[last]
        logs[last], logs[other] = logs[other], logs[last]
        weights[last], weights[other] = weights[other], weights[last]
