"""One word2vec update, compiled by numba: n hidden vectors, m output rows with one label each.

    x_ij = h_i . o_j        g_ij = rate (label_j - sigmoid(x_ij))
    h_i += sum_j g_ij o_j   o_j += sum_i g_ij h_i           both from the values before

Shared negative samples make this three small matrix products (n x m x D) on rows that stay in the L1 cache, instead of
n x m vector operations on rows that do not (Ji et al., 2016, "Parallelizing Word2Vec in Shared and Distributed
Memory"). Three output rows are processed at a time, so that a value of h is loaded once for three products.

The loss is -log of the product of all sigmoids: they are multiplied until the product is small, then one logarithm is
taken. Reference: `harken.embeddings.word2vec.reference.step`.

>>> hidden, outputs = np.ones((1, 16), np.float32), np.zeros((2, 16), np.float32)
>>> change, parts = np.zeros((1, 16), np.float32), np.zeros(16, np.float32)
>>> signs = np.array([1, -1], np.float32)
>>> logarithm = step(hidden, 1, outputs, np.array([0, 1]), signs, 2, np.float32(0.1), change, parts)
>>> round(logarithm, 6), [round(float(value), 3) for value in outputs[:, 0]]
(-1.386294, [0.05, -0.05])
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from harken.kernels.caching import cached_njit
from harken.kernels.numba_math import sigmoid

# Sums may be reordered, or no loop would be vectorised; NaN and infinity keep their meaning.
FLAGS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz"}}
SMALL = 1e-250  # a sigmoid in float32 is at least 1e-38: the product stays above the smallest double


def compiled(function: Any) -> Any:
    """Kept on disk for the next process (`harken.kernels.caching`)."""
    return cached_njit(function, FLAGS)


def inlined(function: Any) -> Any:
    """Inlined into its caller before compilation: a third faster here than LLVM's own inlining."""
    return numba.njit(inline="always", **FLAGS)(function)


@inlined
def score(hidden: Any, count: Any, outputs: Any, rows: Any, answers: Any, scores: Any) -> None:
    """x = H O^T: (count, answers)."""
    zero = np.float32(0)
    whole = answers - answers % 3
    for j in range(0, whole, 3):
        first, second, third = rows[j], rows[j + 1], rows[j + 2]
        for i in range(count):
            a = b = c = zero
            for d in range(hidden.shape[1]):
                value = hidden[i, d]
                a += value * outputs[first, d]
                b += value * outputs[second, d]
                c += value * outputs[third, d]
            at = i * answers + j
            scores[at], scores[at + 1], scores[at + 2] = a, b, c
    for j in range(whole, answers):
        only = rows[j]
        for i in range(count):
            a = zero
            for d in range(hidden.shape[1]):
                a += hidden[i, d] * outputs[only, d]
            scores[i * answers + j] = a


@inlined
def errors(scores: Any, count: Any, signs: Any, answers: Any, rate: Any) -> Any:
    """Replace the scores by g in place; returns the sum of log sigmoid(±x)."""
    unit = np.float32(1)
    product, logarithm = 1.0, 0.0
    size = count * answers
    for i in range(count):
        for j in range(answers):
            scores[i * answers + j] *= signs[j]
    for k in range((size + 15) // 16 * 16):  # whole registers: entries past the last score are never read
        scores[k] = sigmoid(scores[k])
    for k in range(size):
        product *= scores[k]
        if product < SMALL:
            logarithm += math.log(product)
            product = 1.0
    for i in range(count):
        for j in range(answers):
            scores[i * answers + j] = (unit - scores[i * answers + j]) * signs[j] * rate
    return logarithm + math.log(product)


@inlined
def change_hidden(outputs: Any, rows: Any, answers: Any, parts: Any, count: Any, change: Any) -> None:
    """change = G O: the update of the hidden vectors."""
    zero, width = np.float32(0), change.shape[1]
    whole = answers - answers % 3
    for i in range(count):
        for d in range(width):
            change[i, d] = zero
        for j in range(0, whole, 3):
            first, second, third = rows[j], rows[j + 1], rows[j + 2]
            at = i * answers + j
            a, b, c = parts[at], parts[at + 1], parts[at + 2]
            for d in range(width):
                change[i, d] += a * outputs[first, d] + b * outputs[second, d] + c * outputs[third, d]
        for j in range(whole, answers):
            only, a = rows[j], parts[i * answers + j]
            for d in range(width):
                change[i, d] += a * outputs[only, d]


@inlined
def change_outputs(outputs: Any, rows: Any, answers: Any, parts: Any, count: Any, hidden: Any) -> None:
    """O += G^T H."""
    width = hidden.shape[1]
    whole = count - count % 3
    for j in range(answers):
        row = rows[j]
        for i in range(0, whole, 3):
            at = i * answers + j
            a, b, c = parts[at], parts[at + answers], parts[at + 2 * answers]
            for d in range(width):
                outputs[row, d] += a * hidden[i, d] + b * hidden[i + 1, d] + c * hidden[i + 2, d]
        for i in range(whole, count):
            a = parts[i * answers + j]
            for d in range(width):
                outputs[row, d] += a * hidden[i, d]


@inlined
def step(
    hidden: Any, count: Any, outputs: Any, rows: Any, signs: Any, answers: Any, rate: Any, change: Any, parts: Any
) -> Any:
    """Update the output rows and fill `change` for the first `count` hidden vectors; returns sum log p."""
    score(hidden, count, outputs, rows, answers, parts)
    logarithm = errors(parts, count, signs, answers, rate)
    change_hidden(outputs, rows, answers, parts, count, change)
    change_outputs(outputs, rows, answers, parts, count, hidden)
    return logarithm
