"""word2vec on a span of text, compiled by numba: skip-gram or CBOW, negative sampling or hierarchical softmax, n-grams.

For every word that is kept: draw a window, gather the hidden vectors (one per neighbour for skip-gram, their mean for
CBOW), choose the output rows, take one `step`, and add the update to the rows that the hidden vectors came from. The
GIL is released, so several threads update the same matrices at once; occasional lost updates do no
harm (Recht et al., 2011, "Hogwild!").

Reference: `harken.embeddings.word2vec.reference.train_span`, equal for one thread.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.embeddings.word2vec.kernel_step import compiled, inlined, step

MULTIPLIER = np.uint64(6364136223846793005)  # as in harken.embeddings.word2vec.sampling
INCREMENT = np.uint64(1442695040888963407)
SHIFT = np.uint64(11)
UNIT = 2.0**-53


@inlined
def subsample(ids: Any, keep: Any, state: Any, sampled: Any) -> Any:
    """The words that are kept, and the sentence ends; returns their number and the generator's state."""
    count = 0
    for position in range(len(ids)):
        word = ids[position]
        if word >= 0 and keep[word] < 1.0:
            state = state * MULTIPLIER + INCREMENT
            if np.float64(state >> SHIFT) * UNIT >= keep[word]:
                continue
        sampled[count] = word
        count += 1
    return count, state


@inlined
def neighbors(sampled: Any, count: Any, position: Any, reach: Any, around: Any) -> Any:
    """The words within reach in the same sentence, left to right; returns their number."""
    first = position
    while first > 0 and position - first < reach and sampled[first - 1] >= 0:
        first -= 1
    total = 0
    for other in range(first, min(position + reach + 1, count)):
        if other == position:
            continue
        if sampled[other] < 0:
            break
        around[total] = sampled[other]
        total += 1
    return total


@inlined
def draw_negatives(word: Any, height: Any, other: Any, negatives: Any, state: Any, rows: Any) -> Any:
    """Draw `negatives` words other than the word itself into rows[1:]."""
    size = np.float64(len(height))
    for j in range(1, negatives + 1):
        while True:
            state = state * MULTIPLIER + INCREMENT
            draw = np.float64(state >> SHIFT) * UNIT * size
            column = np.int64(draw)
            chosen = column if draw - np.float64(column) < height[column] else np.int64(other[column])
            if chosen != word:
                break
        rows[j] = chosen
    return state


@inlined
def add_row(source: Any, row: Any, target: Any, target_row: Any) -> None:
    """target[target_row] += source[row]."""
    for d in range(source.shape[1]):
        target[target_row, d] += source[row, d]


@inlined
def add_bag(inputs: Any, starts: Any, bags: Any, word: Any, hidden: Any, target_row: Any) -> Any:
    """Add the rows of a word (its own and those of its n-grams) to a hidden vector; returns their number."""
    if len(starts) == 0:
        add_row(inputs, word, hidden, target_row)
        return 1
    for number in range(starts[word], starts[word + 1]):
        add_row(inputs, bags[number], hidden, target_row)
    return starts[word + 1] - starts[word]


@inlined
def update_bag(inputs: Any, starts: Any, bags: Any, word: Any, change: Any, source_row: Any) -> None:
    """Add the update to every row of a word."""
    if len(starts) == 0:
        add_row(change, source_row, inputs, word)
        return
    for number in range(starts[word], starts[word + 1]):
        add_row(change, source_row, inputs, bags[number])


@inlined
def divide(hidden: Any, row: Any, number: Any) -> None:
    """Turn the sum into the mean."""
    if number > 1:
        share = np.float32(1) / np.float32(number)
        for d in range(hidden.shape[1]):
            hidden[row, d] *= share


@compiled
def train_span(
    ids: Any,
    keep: Any,
    height: Any,
    other: Any,
    tree_starts: Any,
    tree_nodes: Any,
    tree_labels: Any,
    bag_starts: Any,
    bags: Any,
    inputs: Any,
    outputs: Any,
    window: Any,
    negatives: Any,
    is_cbow: Any,
    rate: Any,
    state: Any,
) -> Any:
    """Train on ids (-1 between sentences); the summed loss and the number of hidden vectors.

    Empty `tree_starts`: negative sampling by the alias table. Empty `bag_starts`: one row for each word.
    """
    width, zero = inputs.shape[1], np.float32(0)
    longest = negatives + 1
    for word in range(len(tree_starts) - 1):
        longest = max(longest, tree_starts[word + 1] - tree_starts[word])
    sampled = np.empty(len(ids), np.int64)
    around = np.empty(2 * window, np.int64)
    hidden = np.empty((2 * window, width), np.float32)
    change = np.empty((2 * window, width), np.float32)
    parts = np.zeros(2 * window * longest + 16, np.float32)
    rows = np.empty(longest, np.int64)
    signs = np.full(longest, np.float32(-1))
    signs[0] = 1
    loss, predictions = 0.0, 0
    count, state = subsample(ids, keep, state, sampled)
    for position in range(count):
        word = sampled[position]
        if word < 0:
            continue
        state = state * MULTIPLIER + INCREMENT
        reach = 1 + np.int64(np.float64(state >> SHIFT) * UNIT * np.float64(window))
        neighbours = neighbors(sampled, count, position, reach, around)
        if neighbours == 0:
            continue
        if len(tree_starts) == 0:
            answers = negatives + 1
            rows[0] = word
            state = draw_negatives(word, height, other, negatives, state, rows)
        else:
            answers = tree_starts[word + 1] - tree_starts[word]
            for j in range(answers):
                node = tree_starts[word] + j
                rows[j] = tree_nodes[node]
                signs[j] = np.float32(2) * tree_labels[node] - np.float32(1)
        vectors = 1 if is_cbow else neighbours
        for i in range(vectors):
            for d in range(width):
                hidden[i, d] = zero
        if is_cbow:
            total = 0
            for i in range(neighbours):
                total += add_bag(inputs, bag_starts, bags, around[i], hidden, 0)
            divide(hidden, 0, total)
        else:
            for i in range(neighbours):
                divide(hidden, i, add_bag(inputs, bag_starts, bags, around[i], hidden, i))
        loss -= step(hidden, vectors, outputs, rows, signs, answers, rate, change, parts)
        for i in range(neighbours):
            update_bag(inputs, bag_starts, bags, around[i], change, 0 if is_cbow else i)
        predictions += vectors
    return loss, predictions
