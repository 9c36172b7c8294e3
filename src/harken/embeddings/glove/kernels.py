"""GloVe's kernels, compiled by numba: weighted co-occurrence counts without hash or sort, and AdaGrad steps on pairs.

    x_ij = sum over every j within the window around an i of 1 / distance

Positions are listed by word first (a counting sort). The row of a word is accumulated over its positions in one array
of V numbers, which fits the cache. Pairs are written to tiles, one per block of rows and columns, so that training on a
tile finds its vectors in the cache. Counting runs twice: to size the tiles and to write them.

    d = w_i . c_j + b_i + b_j - log x        loss = f(x) d^2
    g = rate f(x) d       w_i -= g c_j / sqrt(G_i)       c_j -= g w_i / sqrt(H_j)      then G_i += (g c_j)^2 ...

Sums of squares begin at 1 and include the rate, as in the authors' program (Pennington, Socher and Manning, 2014,
"GloVe: Global Vectors for Word Representation"). Reference: `harken.embeddings.glove.reference`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from harken.embeddings.word2vec.kernel_step import compiled

MULTIPLIER = np.uint64(6364136223846793005)
INCREMENT = np.uint64(1442695040888963407)


@compiled
def positions_by_word(stream: Any, starts: Any, positions: Any) -> None:
    """Fill `positions` with the positions of every word, word by word; `starts` (V + 1) are their offsets."""
    following = starts[:-1].copy()
    for position in range(len(stream)):
        word = stream[position]
        if word >= 0:
            positions[following[word]] = position
            following[word] += 1


@compiled
def scan_rows(
    stream: Any,
    starts: Any,
    positions: Any,
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
    """The rows of one block: count the pairs of each tile into `following`, or write them at those offsets.

    It counts where `rows` is empty. A pair is written with log x and its weight min(1, x / cap)^power.
    """
    size = len(starts) - 1
    blocks = (size + side - 1) // side
    sums = np.zeros(size, np.float32)
    touched = np.empty(size, np.int64)
    for word in range(block * side, min(size, (block + 1) * side)):
        neighbours = 0
        for number in range(starts[word], starts[word + 1]):
            here = positions[number]
            for step in (-1, 1):
                position = here
                for distance in range(1, window + 1):
                    position += step
                    if position < 0 or position >= len(stream) or stream[position] < 0:
                        break
                    other = stream[position]
                    if sums[other] == 0:
                        touched[neighbours] = other
                        neighbours += 1
                    sums[other] += np.float32(1) / np.float32(distance)
        for number in range(neighbours):
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
    """Fisher-Yates shuffle of the pairs from start to stop."""
    for last in range(stop - 1, start, -1):
        state = state * MULTIPLIER + INCREMENT
        other = start + np.int64(np.float64(state >> np.uint64(11)) * 2.0**-53 * np.float64(last - start + 1))
        rows[last], rows[other] = rows[other], rows[last]
        columns[last], columns[other] = columns[other], columns[last]
        logs[last], logs[other] = logs[other], logs[last]
        weights[last], weights[other] = weights[other], weights[last]


@compiled
def train_pairs(
    rows: Any, columns: Any, logs: Any, weights: Any, start: Any, stop: Any, words: Any, contexts: Any, rate: Any
) -> Any:
    """Train on the pairs from start to stop; returns the summed loss.

    `words` and `contexts` are (V, 2, D + 1, padded): vector and bias, then the sums of squares of both. The bias is
    multiplied by an implicit 1, so it is updated separately.
    """
    width = words.shape[2] - 1  # the last number is the bias; the padding before it stays 0
    zero = np.float32(0)
    loss = 0.0
    for pair in range(start, stop):
        i, j = rows[pair], columns[pair]
        product = zero
        for d in range(width):
            product += words[i, 0, d] * contexts[j, 0, d]
        difference = product + words[i, 0, width] + contexts[j, 0, width] - logs[pair]
        part = weights[pair] * difference
        loss += np.float64(part) * np.float64(difference)
        part *= rate
        for d in range(width):
            for_word = part * contexts[j, 0, d]
            for_context = part * words[i, 0, d]
            words[i, 0, d] -= for_word / np.sqrt(words[i, 1, d])
            contexts[j, 0, d] -= for_context / np.sqrt(contexts[j, 1, d])
            words[i, 1, d] += for_word * for_word
            contexts[j, 1, d] += for_context * for_context
        words[i, 0, width] -= part / np.sqrt(words[i, 1, width])
        contexts[j, 0, width] -= part / np.sqrt(contexts[j, 1, width])
        words[i, 1, width] += part * part
        contexts[j, 1, width] += part * part
    return loss
