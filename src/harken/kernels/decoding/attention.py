"""Attention of single rows: the query of every live hypothesis against its own past, and against its source.

    softmax(q . k_s / sqrt(K) - m |t - s|) v_s in each of N heads      m: the slope of ALiBi, otherwise 0

The reference is `harken.nn.attention`. Keys and values of past tokens are never moved. Step s wrote those of its row i at
(s, i) of the cache; `ancestors` (rows, T) says which row of each earlier step a hypothesis descends from, so reordering a
beam copies small integers in place of its cache. Hypotheses of one source share the keys and values of the memory, which
lie without padding: source b has rows starts[b] to starts[b + 1].
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from harken.kernels.decoding.products import FLAGS, MAXIMA, SUMS
from harken.kernels.numba_math import exp_not_positive


@numba.njit(**SUMS)
def _dot(left: Any, right: Any, width: Any) -> Any:
    total = np.float32(0)
    for k in range(width):
        total += left[k] * right[k]
    return total


@numba.njit(**FLAGS)
def _add(out: Any, values: Any, weight: Any, width: Any) -> None:
    for k in range(width):
        out[k] += weight * values[k]


@numba.njit(**MAXIMA)
def maximum(values: Any, count: Any) -> Any:
    """The largest of the first `count` values."""
    largest = np.float32(-np.inf)
    for k in range(count):
        largest = values[k] if values[k] > largest else largest
    return largest


@numba.njit(**SUMS)
def exponentials(values: Any, count: Any, largest: Any) -> Any:
    """values = exp(values - largest); returns their sum."""
    total = np.float32(0)
    for k in range(count):
        values[k] = exp_not_positive(values[k] - largest)
        total += values[k]
    return total


@numba.njit(**FLAGS)
def softmax(values: Any, count: Any) -> None:
    """In place."""
    total = exponentials(values, count, maximum(values, count))
    inverse = np.float32(1) / total
    for k in range(count):
        values[k] *= inverse


@numba.njit(**FLAGS)
def attend_past(
    query: Any, keys: Any, values: Any, ancestors: Any, rows: Any, time: Any, heads: Any, width: Any, scale: Any,
    slopes: Any, scores: Any, out: Any,
) -> None:  # fmt: skip
    """Rows of `query` (rows, D) at position `time` against keys and values (T, R, D) of positions 0 to `time`."""
    for row in range(rows):
        past = ancestors[row]
        for head in range(heads):
            low = head * width
            q, context = query[row, low : low + width], out[row, low : low + width]
            for step in range(time + 1):
                key = keys[step, past[step], low : low + width]
                scores[step] = _dot(q, key, width) * scale - slopes[head] * np.float32(time - step)
            softmax(scores, time + 1)
            context[:] = np.float32(0)
            for step in range(time + 1):
                _add(context, values[step, past[step], low : low + width], scores[step], width)


@numba.njit(**FLAGS)
def attend_source(
    query: Any, memory: Any, sources: Any, starts: Any, rows: Any, heads: Any, width: Any, scale: Any, scores: Any,
    out: Any,
) -> None:  # fmt: skip
    """Rows of `query` (rows, D) against the memory (tokens, 2 D) of their source: keys first, then values."""
    full = heads * width
    for row in range(rows):
        first, last = starts[sources[row]], starts[sources[row] + 1]
        for head in range(heads):
            low = head * width
            q, context = query[row, low : low + width], out[row, low : low + width]
            for token in range(first, last):
                scores[token - first] = _dot(q, memory[token, low : low + width], width) * scale
            softmax(scores, last - first)
            context[:] = np.float32(0)
            for token in range(first, last):
                _add(context, memory[token, full + low : full + low + width], scores[token - first], width)


@numba.njit(**FLAGS)
def attend_all(
    projected: Any, starts: Any, heads: Any, width: Any, scale: Any, slopes: Any, scores: Any, out: Any
) -> None:
    """Self-attention of whole sources: queries, keys and values (tokens, 3 D) -> (tokens, D)."""
    full = heads * width
    for source in range(starts.shape[0] - 1):
        first, last = starts[source], starts[source + 1]
        for head in range(heads):
            low = head * width
            for row in range(first, last):
                q, context = projected[row, low : low + width], out[row, low : low + width]
                for token in range(first, last):
                    key = projected[token, full + low : full + low + width]
                    scores[token - first] = _dot(q, key, width) * scale - slopes[head] * np.float32(abs(row - token))
                softmax(scores, last - first)
                context[:] = np.float32(0)
                for token in range(first, last):
                    value = projected[token, 2 * full + low : 2 * full + low + width]
                    _add(context, value, scores[token - first], width)


@numba.njit(**FLAGS)
def rotate(values: Any, row: Any, low: Any, heads: Any, width: Any, angles: Any) -> None:
    """Rotary positions: pairs of each head of values[row, low:] by `angles` (K,): sine, cosine, sine, ..."""
    for head in range(heads):
        line = values[row, low + head * width : low + (head + 1) * width]
        for pair in range(0, width, 2):
            sine, cosine = angles[pair], angles[pair + 1]
            first, second = line[pair], line[pair + 1]
            line[pair] = first * cosine - second * sine
            line[pair + 1] = first * sine + second * cosine
