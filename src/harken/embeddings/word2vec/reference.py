"""The reference implementation of word2vec in plain NumPy; `harken.embeddings.word2vec.kernel` is the fast one.

A hidden vector h predicts the word in the middle: skip-gram takes each neighbour's vector as an h, CBOW their mean.
With k negative samples w,

    loss = -log sigmoid(o_word . h) - sum over samples w of log sigmoid(-o_w . h)

and with hierarchical softmax the same form over the nodes on the word's path. A window is one update from the values
before it; its hidden vectors share the negative samples. Reference: Mikolov et al., 2013,
"Efficient Estimation of Word Representations in Vector Space".

>>> model = Model(np.eye(2, dtype=np.float32), np.zeros((2, 2), dtype=np.float32))
>>> round(step(model.inputs[:1], model.outputs, [0, 1], [1, 0], rate=1.0)[1], 4)  # -2 log sigmoid(0)
1.3863
>>> model.outputs.tolist()
[[0.5, 0.0], [-0.5, 0.0]]
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.word2vec.sampling import Draws, Tree


@dataclass
class Model:
    """The two matrices, and which of their rows belong to a word."""

    inputs: NDArray[np.float32]  # (V, D), the words followed by n-grams
    outputs: NDArray[np.float32]  # (V, D), or (V - 1, D) nodes of the Huffman tree
    tree: Tree | None = None
    bags: list[list[int]] = field(default_factory=list)  # rows of `inputs` for each word; empty: its own row only

    def rows_of(self, word: int) -> list[int]:
        """The rows of `inputs` whose mean is the word's vector."""
        return self.bags[word] if self.bags else [word]


def step(
    hidden: NDArray[np.float32], outputs: NDArray[np.float32], rows: Any, labels: Any, rate: float
) -> tuple[NDArray[np.float32], float]:
    """Update the output rows; returns the update of the hidden vectors (n, D) and the loss."""
    rows = np.array(rows)
    labels = np.asarray(labels, dtype=np.float32)
    right = 1 / (1 + np.exp(-(2 * labels - 1) * (hidden @ outputs[rows].T)))  # (n, m): probability of each label
    error = (rate * (1 - right) * (2 * labels - 1)).astype(np.float32)  # rate (label - sigmoid)
    change = error @ outputs[rows]
    np.add.at(outputs, rows, error.T @ hidden)  # a row may occur twice
    return change, float(-np.log(right).sum())


def windows(
    ids: Sequence[int], keep: NDArray[np.float64], window: int, draws: Draws
) -> Iterator[tuple[int, list[int]]]:
    """Every word that is kept, with its neighbours within a window size drawn for each word."""
    sampled = [word for word in ids if word < 0 or keep[word] >= 1 or draws.uniform() < keep[word]]
    for position, word in enumerate(sampled):
        if word < 0:
            continue
        reach = 1 + int(draws.uniform() * window)
        before, after = sampled[max(0, position - reach) : position], sampled[position + 1 : position + 1 + reach]
        while -1 in before:
            before = before[before.index(-1) + 1 :]
        around = before + (after[: after.index(-1)] if -1 in after else after)
        if around:
            yield word, around


def train_span(
    model: Model,
    ids: Sequence[int],
    keep: NDArray[np.float64],
    alias: tuple[NDArray[np.float32], NDArray[np.int32]],
    *,
    window: int,
    negatives: int,
    is_cbow: bool,
    rate: float,
    state: int,
) -> tuple[float, int]:
    """Train on ids (-1 between sentences); the summed loss and the number of hidden vectors."""
    draws = Draws(state)
    loss, predictions = 0.0, 0
    for word, around in windows(ids, keep, window, draws):
        if model.tree is not None:
            rows, labels = model.tree.nodes_of(word).tolist(), model.tree.labels_of(word).tolist()
        else:
            rows = [word]
            while len(rows) <= negatives:
                sample = draws.alias(*alias)
                rows += [sample] if sample != word else []
            labels = [1] + [0] * negatives
        bags = [model.rows_of(other) for other in around]
        if is_cbow:
            bags = [functools.reduce(operator.iadd, bags, [])]
        hidden = np.stack([model.inputs[bag].mean(0) for bag in bags])
        change, lost = step(hidden, model.outputs, rows, labels, rate)
        for bag, part in zip(bags, change, strict=True):
            np.add.at(model.inputs, bag, part)
        loss, predictions = loss + lost, predictions + len(bags)
    return loss, predictions
