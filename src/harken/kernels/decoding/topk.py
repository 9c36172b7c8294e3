"""The output layer, log-sum-exp and the most probable tokens of each row, without ever holding all logits.

    log p(v) = z_v - log sum_u exp(z_u)

Logits are computed some panels of columns at a time and looked at while they lie in the cache. For each row the largest
logit so far, the sum of exponentials relative to it, and the best tokens so far are kept. The reference is
`harken.search.hypotheses.continuations`: PAD and BOS count in the sum but are never chosen, of equal log-probabilities
the lower id comes first, and no log-probability is above 0.

With a shortlist (`Allowed`) the output layer has a column for each token that some source of the batch may write, and
a row sums and chooses among those of its own source, so that its result does not depend on the rest of the batch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from harken.kernels.decoding.attention import maximum
from harken.kernels.decoding.description import SpecialTokens
from harken.kernels.decoding.products import COLUMNS, FLAGS, INPUTS, NO_LIMIT, OUTPUTS, SUMS, multiply, quantise
from harken.kernels.decoding.tiles import LANES, out_of_line
from harken.kernels.decoding.vectors import first_bit, lanes_above, larger, load, splat, vector_maximum
from harken.kernels.linking import linked_njit
from harken.kernels.numba_math import exp_not_positive

CHUNK = 2**16  # logits held at once, 256 KiB
WIDEST = 2048  # columns at a time
NOTHING = SpecialTokens(-1, -1, -1)  # no token is special


class Allowed(NamedTuple):
    """The columns of an output layer that has a part of the vocabulary; empty arrays: it has all of it."""

    tokens: Any  # (U,) int64: the token of each column in rising order, from PAD, UNK, BOS and EOS on
    excluded: Any  # (B, whole panels) float32: -inf where a source may not write a token, otherwise 0


def all_allowed() -> Allowed:
    """The whole vocabulary."""
    return Allowed(np.empty(0, np.int64), np.empty((0, 0), np.float32))


@linked_njit(**SUMS)
def _sum_of_exponentials(values: Any, count: Any, largest: Any) -> Any:
    total = np.float32(0)
    for k in range(count):
        total += exp_not_positive(values[k] - largest)
    return total


@linked_njit(**FLAGS)
def _insert(logits: Any, ids: Any, count: Any, logit: Any, token: Any) -> None:
    """Into a list of `count`, best first; after those that are equal."""
    slot = count - 1
    while slot > 0 and logits[slot - 1] < logit:
        logits[slot] = logits[slot - 1]
        ids[slot] = ids[slot - 1]
        slot -= 1
    logits[slot] = logit
    ids[slot] = token


@linked_njit(**FLAGS)
def _block_maxima(values: Any, width: Any, maxima: Any) -> Any:
    """The largest of each `COLUMNS` values, and of all."""
    address, largest = values.ctypes.data, np.float32(-np.inf)
    for start in range(0, width, COLUMNS):
        best = load(address + 4 * start)
        for k in range(LANES, COLUMNS, LANES):
            best = larger(load(address + 4 * (start + k)), best)
        maxima[start // COLUMNS] = vector_maximum(best)
    for block in range(width // COLUMNS):
        largest = maxima[block] if maxima[block] > largest else largest
    return largest


@linked_njit(**FLAGS)
def _scan(
    values: Any, width: Any, first: Any, maxima: Any, count: Any, logits: Any, ids: Any, no_end: Any, special: Any
) -> None:
    """The tokens of a row's columns, the first of which is token `first`, that belong to its best `count`."""
    out_of_line()
    address = values.ctypes.data
    for block in range(width // COLUMNS):
        if maxima[block] > logits[count - 1]:
            for start in range(block * COLUMNS, (block + 1) * COLUMNS, LANES):
                bits = lanes_above(load(address + 4 * start), splat(logits[count - 1]))
                while bits != 0:
                    k = start + first_bit(bits)
                    bits &= bits - 1
                    token = first + k
                    is_text = token != special.pad and token != special.bos
                    if is_text and not (no_end and token == special.eos) and values[k] > logits[count - 1]:
                        _insert(logits, ids, count, values[k], token)


@linked_njit(**FLAGS)
def best_of_line(line: Any, logits: Any, ids: Any) -> None:
    """The best of the scores `line` (whole panels,) of all tokens; -inf where there are fewer."""
    out_of_line()
    maxima = np.empty(line.shape[0] // COLUMNS, np.float32)
    for slot in range(logits.shape[0]):
        logits[slot], ids[slot] = np.float32(-np.inf), 0
    _block_maxima(line, line.shape[0], maxima)
    _scan(line, line.shape[0], 0, maxima, logits.shape[0], logits, ids, False, NOTHING)


@linked_njit(**FLAGS)
def normalise_line(line: Any) -> bool:
    """Logits (whole panels,) -> log-probabilities, none above 0; False where they are not finite numbers."""
    out_of_line()
    largest = maximum(line, line.shape[0])
    total = _sum_of_exponentials(line, line.shape[0], largest)
    normaliser = largest + np.float32(math.log(total))
    for k in range(line.shape[0]):
        line[k] = min(line[k] - normaliser, np.float32(0))
    return total < np.float32(np.inf) and abs(largest) < np.float32(np.inf)


@linked_njit(**FLAGS)
def most_probable(
    packed: Any, product: Any, b: Any, rows: Any, count: Any, chunk: Any, logs: Any, ids: Any, no_end: Any,
    special: Any, allowed: Any = None, sources: Any = None,
) -> bool:  # fmt: skip
    """Fills logs and ids (rows, count), best first; False where a row's logits are not finite numbers.

    Args:
        b: buffers whose `values` are the inputs of the output layer.
        chunk: (rows, columns) for logits.
        no_end: (rows,) whether EOS is excluded.
        special: the `SpecialTokens`.
        allowed: of a shortlist; None: the whole vocabulary.
        sources: (rows,) the source of each row, for a shortlist.
    """
    out_of_line()
    if packed.values.size > 0:
        quantise(b.values, packed.products[product, INPUTS], rows, b.quantised, b.scales)
    columns = (packed.products[product, OUTPUTS] + COLUMNS - 1) // COLUMNS * COLUMNS
    largest, total = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32)
    for row in range(rows):
        for slot in range(count):
            logs[row, slot], ids[row, slot] = np.float32(-np.inf), special.pad
    maxima = np.empty(chunk.shape[1] // COLUMNS, np.float32)
    for first in range(0, columns, chunk.shape[1]):
        last = min(columns, first + chunk.shape[1])
        span = first, last, np.int64(0)
        multiply(packed, product, b.values, b.quantised, b.scales, rows, chunk, NO_LIMIT, np.int64(0), span)
        for row in range(rows):
            values, width = chunk[row], last - first
            if allowed is not None and allowed.tokens.shape[0] > 0:
                excluded = allowed.excluded[sources[row]]
                for k in range(width):
                    values[k] += excluded[first + k]
            best = _block_maxima(values, width, maxima)
            if best > largest[row]:
                total[row] *= exp_not_positive(largest[row] - best)
                largest[row] = best
            total[row] += _sum_of_exponentials(values, width, largest[row])
            if best > logs[row, count - 1]:
                _scan(values, width, first, maxima, count, logs[row], ids[row], no_end[row], special)
    finite = True
    for row in range(rows):
        if not total[row] < np.float32(np.inf) or not abs(largest[row]) < np.float32(np.inf):
            finite = False
        normaliser = largest[row] + np.float32(math.log(total[row]))
        for slot in range(count):
            logs[row, slot] = min(logs[row, slot] - normaliser, np.float32(0))
    if allowed is not None and allowed.tokens.shape[0] > 0:
        for row in range(rows):
            for slot in range(count):
                ids[row, slot] = allowed.tokens[ids[row, slot]]
    return finite
