"""word2vec as its equations say it, in plain NumPy; `harken.embeddings.kernels.word2vec` is its fast twin.

A hidden vector h predicts the word in the middle: skip-gram takes each neighbour's vector as an h, CBOW their mean.
With wrong answers drawn by count^0.75,

    loss = -log sigmoid(o_word . h) - sum over wrong w of log sigmoid(-o_w . h)

and with a tree the same form over the nodes on the word's path. All that a window says is learnt at once, from the
values before it; the wrong answers of a window are shared by its hidden vectors. Reference: Mikolov et al., 2013,
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

from harken.embeddings.word2vec.huffman import Tree
from harken.embeddings.word2vec.sampling import Draws


@dataclass
class Model:
    """Two matrices, and what decides which of their rows a word means."""

    inputs: NDArray[np.float32]  # (V, D), with n-grams behind the words
    outputs: NDArray[np.float32]  # (V, D), or (V - 1, D) nodes of the tree
    tree: Tree | None = None
    bags: list[list[int]] = field(default_factory=list)  # rows of `inputs` for each word; empty: its own alone

    def rows_of(self, word: int) -> list[int]:
        """The rows of `inputs` whose mean is the word's vector."""
        return self.bags[word] if self.bags else [word]


def step(
    hidden: NDArray[np.float32], outputs: NDArray[np.float32], rows: Any, answers: Any, rate: float
) -> tuple[NDArray[np.float32], float]:
    """Teach the output rows; what the hidden vectors (n, D) should change by, and the loss."""
    rows = np.array(rows)
    answers = np.asarray(answers, dtype=np.float32)
    right = 1 / (1 + np.exp(-(2 * answers - 1) * (hidden @ outputs[rows].T)))  # (n, m): probability of each answer
    parts = (rate * (1 - right) * (2 * answers - 1)).astype(np.float32)  # rate x (answer - sigmoid)
    change = parts @ outputs[rows]
    np.add.at(outputs, rows, parts.T @ hidden)  # a row may be there twice
    return change, float(-np.log(right).sum())


def windows(
    ids: Sequence[int], keep: NDArray[np.float64], window: int, draws: Draws
) -> Iterator[tuple[int, list[int]]]:
    """Every word that stays, with its neighbours within a reach that is drawn anew for each."""
    kept = [word for word in ids if word < 0 or keep[word] >= 1 or draws.uniform() < keep[word]]
    for place, word in enumerate(kept):
        if word < 0:
            continue
        reach = 1 + int(draws.uniform() * window)
        before, after = kept[max(0, place - reach) : place], kept[place + 1 : place + 1 + reach]
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
    """Train on ids (-1 between sentences); the summed loss and how many hidden vectors it is the loss of."""
    draws = Draws(state)
    loss, predictions = 0.0, 0
    for word, around in windows(ids, keep, window, draws):
        if model.tree is not None:
            rows, answers = model.tree.nodes_of(word).tolist(), model.tree.answers_of(word).tolist()
        else:
            rows = [word]
            while len(rows) <= negatives:
                wrong = draws.alias(*alias)
                rows += [wrong] if wrong != word else []
            answers = [1] + [0] * negatives
        bags = [model.rows_of(other) for other in around]
        if is_cbow:
            bags = [functools.reduce(operator.iadd, bags, [])]
        hidden = np.stack([model.inputs[bag].mean(0) for bag in bags])
        change, lost = step(hidden, model.outputs, rows, answers, rate)
        for bag, part in zip(bags, change, strict=True):
            np.add.at(model.inputs, bag, part)
        loss, predictions = loss + lost, predictions + len(bags)
    return loss, predictions
