"""The reference implementation of GloVe in plain NumPy; `harken.embeddings.glove.kernels` is the fast one.

x_ij is how often j occurs near i, weighted by 1 / distance. Vectors and biases are fitted to its logarithm:

    J = sum over pairs of f(x_ij) (w_i . c_j + b_i + b_j - log x_ij)^2        f(x) = min(1, x / cap)^power

by AdaGrad. Reference: Pennington, Socher and Manning, 2014, "GloVe: Global Vectors for Word Representation".

>>> cooccurrences([0, 1, 1, -1, 0], size=2, window=2).tolist()
[[0.0, 1.5], [1.5, 2.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


def cooccurrences(stream: Sequence[int], size: int, window: int) -> NDArray[np.float64]:
    """x: (V, V), symmetric; -1 ends a sentence."""
    counts = np.zeros((size, size))
    for position, word in enumerate(stream):
        for distance in range(1, window + 1):
            if word < 0 or position + distance >= len(stream) or stream[position + distance] < 0:
                break
            other = stream[position + distance]
            counts[word, other] += 1 / distance
            counts[other, word] += 1 / distance
    return counts


@dataclass
class Side:
    """Words, or contexts: vectors (V, D), biases (V,), and the sums of squares of each, which begin at 1."""

    vectors: NDArray[np.float64]
    biases: NDArray[np.float64]
    squares: NDArray[np.float64]
    bias_squares: NDArray[np.float64]


def step(words: Side, contexts: Side, i: int, j: int, log: float, weight: float, rate: float) -> float:
    """One pair; returns f(x) d^2 from before the step."""
    difference = words.vectors[i] @ contexts.vectors[j] + words.biases[i] + contexts.biases[j] - log
    part = rate * weight * difference
    for_word, for_context = part * contexts.vectors[j], part * words.vectors[i]
    words.vectors[i] -= for_word / np.sqrt(words.squares[i])
    contexts.vectors[j] -= for_context / np.sqrt(contexts.squares[j])
    words.squares[i] += for_word**2
    contexts.squares[j] += for_context**2
    for side, number in ((words, i), (contexts, j)):
        side.biases[number] -= part / np.sqrt(side.bias_squares[number])
        side.bias_squares[number] += part**2
    return float(weight * difference**2)
