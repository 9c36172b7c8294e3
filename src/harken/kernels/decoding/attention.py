"""Attention of single rows: the query of every live hypothesis against its own past, and against its source.

    softmax(q . k_s / sqrt(K) + b_(s - t)) v_s in each of N heads      b: the bias of a distance, otherwise 0

The reference is `harken.nn.attention`. Keys and values of past tokens are never moved. Step s wrote those of its row i
at (s, i) of the cache, keys first, then values; `ancestors` (rows, T) says which row of each earlier step a hypothesis
descends from, so reordering a beam copies small integers in place of its cache. Hypotheses of one source share the keys
and values of the memory, which lie without padding: source b has rows starts[b] to starts[b + 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.kernels.decoding.products import FLAGS, SUMS
from harken.kernels.decoding.tiles import LANES, out_of_line
from harken.kernels.decoding.vectors import (
    larger,
    load,
    multiply_add,
    number,
    set_number,
    splat,
    store,
    vector_maximum,
    vector_sum,
)
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import exp_not_positive


@linked_njit(**FLAGS)
def maximum(values: Any, count: Any) -> Any:
    """The largest of the first `count` values."""
    address, rest = values.ctypes.data, count - count % LANES
    best = splat(np.float32(-np.inf))
    for k in range(0, rest, LANES):
        best = larger(load(address + 4 * k), best)
    largest = vector_maximum(best)
    for k in range(rest, count):
        largest = values[k] if values[k] > largest else largest
    return largest


@linked_njit(**SUMS)
def exponentials(values: Any, count: Any, largest: Any) -> Any:
    """values = exp(values - largest); returns their sum."""
    total = np.float32(0)
    for k in range(count):
        values[k] = exp_not_positive(values[k] - largest)
        total += values[k]
    return total


@linked_njit(**FLAGS)
def mix(places: Any, first: Any, count: Any, line: Any, inverse: Any, width: Any, out: Any) -> None:
    """sum_k line[k] v_k * inverse into `out`, an address; value k (width,) lies at places[k] + first."""
    whole = width - width % LANES
    for lane in range(0, whole - whole % (4 * LANES), 4 * LANES):
        a, b, c, d = splat(np.float32(0)), splat(np.float32(0)), splat(np.float32(0)), splat(np.float32(0))
        for k in range(count):
            address, weight = places[k] + first + 4 * lane, splat(line[k])
            a = multiply_add(weight, load(address), a)
            b = multiply_add(weight, load(address + 4 * LANES), b)
            c = multiply_add(weight, load(address + 8 * LANES), c)
            d = multiply_add(weight, load(address + 12 * LANES), d)
        here, weight, zero = out + 4 * lane, splat(inverse), splat(np.float32(0))
        store(here, multiply_add(a, weight, zero))
        store(here + 4 * LANES, multiply_add(b, weight, zero))
        store(here + 8 * LANES, multiply_add(c, weight, zero))
        store(here + 12 * LANES, multiply_add(d, weight, zero))
    for lane in range(whole - whole % (4 * LANES), whole, LANES):
        a = splat(np.float32(0))
        for k in range(count):
            a = multiply_add(splat(line[k]), load(places[k] + first + 4 * lane), a)
        store(out + 4 * lane, multiply_add(a, splat(inverse), splat(np.float32(0))))
    for lane in range(whole, width):
        total_of_lane = np.float32(0)
        for k in range(count):
            total_of_lane += line[k] * number(places[k] + first + 4 * lane)
        set_number(out + 4 * lane, total_of_lane * inverse)


@linked_njit(**FLAGS)
def _attend_row(
    query: Any, places: Any, count: Any, value_offset: Any, heads: Any, width: Any, scale: Any, scores: Any, out: Any
) -> None:
    """All heads of one query.

    Args:
        query, out: addresses of (D,).
        places: addresses of the keys (D,); their values lie `value_offset` bytes further.
        scores: (N, count), what is added to the scores of each head.
    """
    whole = width - width % LANES
    for head in range(heads):
        line, start = scores[head], 4 * head * width
        for k in range(count):
            key, total = places[k] + start, splat(np.float32(0))
            for lane in range(0, whole, LANES):
                total = multiply_add(load(query + start + 4 * lane), load(key + 4 * lane), total)
            score = vector_sum(total)
            for lane in range(whole, width):
                score += number(query + start + 4 * lane) * number(key + 4 * lane)
            line[k] += score * scale
        inverse = np.float32(1) / exponentials(line, count, maximum(line, count))
        mix(places, start + value_offset, count, line, inverse, width, out + start)


@linked_njit(**FLAGS)
def attend_past(
    query: Any, cache: Any, ancestors: Any, rows: Any, time: Any, heads: Any, width: Any, scale: Any, biases: Any,
    scores: Any, places: Any, out: Any,
) -> None:  # fmt: skip
    """Rows of `query` (rows, D) at position `time` against the cache (T, R, 2 D) of positions 0 to `time`."""
    out_of_line()
    middle, is_biased = biases.shape[1] // 2, biases.shape[1] > 0
    line, step_bytes = cache.shape[2] * 4, cache.shape[1] * cache.shape[2] * 4
    for row in range(rows):
        for step in range(time + 1):
            places[step] = cache.ctypes.data + step * step_bytes + ancestors[row, step] * line
            for head in range(heads):
                scores[head, step] = biases[head, middle + step - time] if is_biased else np.float32(0)
        at, to = query.ctypes.data + 4 * row * query.shape[1], out.ctypes.data + 4 * row * out.shape[1]
        _attend_row(at, places, time + 1, 4 * heads * width, heads, width, scale, scores, to)


@linked_njit(**FLAGS)
def attend_source(
    query: Any, memory: Any, sources: Any, starts: Any, rows: Any, heads: Any, width: Any, scale: Any, scores: Any,
    places: Any, out: Any, shares: Any, attention: Any,
) -> None:  # fmt: skip
    """Rows of `query` (rows, D) against the memory (tokens, 2 D) of their source: keys first, then values.

    `attention` (rows, S) gets the weights, a mean over the heads with their `shares` (N,); nothing, where it is empty.
    """
    out_of_line()
    for row in range(rows):
        first, last = starts[sources[row]], starts[sources[row] + 1]
        for token in range(first, last):
            places[token - first] = memory.ctypes.data + 4 * token * memory.shape[1]
            for head in range(heads):
                scores[head, token - first] = np.float32(0)
        at, to = query.ctypes.data + 4 * row * query.shape[1], out.ctypes.data + 4 * row * out.shape[1]
        _attend_row(at, places, last - first, 4 * heads * width, heads, width, scale, scores, to)
        if attention.shape[0] > 0:
            line, count = attention[row], last - first
            line[:] = np.float32(0)
            for head in range(heads):
                total = np.float32(0)
                for token in range(count):
                    total += scores[head, token]
                for token in range(count):
                    line[token] += shares[head] * (scores[head, token] / total)


@linked_njit(**FLAGS)
def attend_all(
    projected: Any, starts: Any, heads: Any, width: Any, scale: Any, biases: Any, scores: Any, places: Any, out: Any
) -> None:
    """Self-attention of whole sources: queries, keys and values (tokens, 3 D) -> (tokens, D)."""
    out_of_line()
    middle, is_biased = biases.shape[1] // 2, biases.shape[1] > 0
    stride, bytes_of_d = 4 * projected.shape[1], 4 * heads * width
    for source in range(starts.shape[0] - 1):
        first, last = starts[source], starts[source + 1]
        for token in range(first, last):
            places[token - first] = projected.ctypes.data + token * stride + bytes_of_d
        for row in range(first, last):
            for token in range(first, last):
                for head in range(heads):
                    bias = biases[head, middle + token - row] if is_biased else np.float32(0)
                    scores[head, token - first] = bias
            at, to = projected.ctypes.data + row * stride, out.ctypes.data + 4 * row * out.shape[1]
            _attend_row(at, places, last - first, bytes_of_d, heads, width, scale, scores, to)


@linked_njit(**FLAGS)
def rotate(values: Any, row: Any, heads: Any, width: Any, angles: Any) -> None:
    """Rotary positions: the first `heads` heads of values[row] by `angles` (K,): sine, cosine, sine, ..."""
    out_of_line()
    for head in range(heads):
        line = values[row, head * width : (head + 1) * width]
        for pair in range(0, width, 2):
            sine, cosine = angles[pair], angles[pair + 1]
            first, second = line[pair], line[pair + 1]
            line[pair] = first * cosine - second * sine
            line[pair + 1] = first * sine + second * cosine
