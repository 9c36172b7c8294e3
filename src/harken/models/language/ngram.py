"""An n-gram model, the baseline of every language model: interpolated Kneser-Ney with three discounts.

p(w | c) = max(0, n(c w) - D) / n(c) + g(c) p(w | c without its first word),   D = D1, D2 or D3 for n = 1, 2, 3 and more

g(c) gives what was discounted to the shorter context. The longest n-grams have their counts as n; of all shorter ones n
is how many different words stand before them, since a shorter context is asked where the longer was not seen. Below a
single word all tokens are equally likely. Chen and Goodman (1999), "modified Kneser-Ney"; Kneser and Ney (1995).

N-grams of order n are numbered by (the number of the first n - 1 words, the last word), so that all counting is sorting
whole arrays.

>>> text = np.array([3, 4, 5, 3, 4, 5, 3, 4, 6, 3])
>>> model = NGram.train(text, size=7, order=3)
>>> bool(np.isclose(sum(np.exp(model.log_probabilities(np.array([3, 4, w]))[-1]) for w in range(7)), 1))
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FULL_DISCOUNT = 0.5  # where a text is too small to say


@dataclass(frozen=True)
class Order:
    """All n-grams of one length."""

    keys: np.ndarray  # (G,) sorted: number of the first n - 1 words x V + last word
    found: np.ndarray  # (G,) max(0, n - D) / n(context)
    rest: np.ndarray  # (contexts,) g of every context


class NGram:
    """Tables of every order; `train` makes them."""

    def __init__(self, orders: Sequence[Order], size: int) -> None:
        self.orders, self.size = list(orders), size

    @classmethod
    def train(cls, ids: np.ndarray, size: int, order: int = 5) -> NGram:
        """From a text of ids below `size`, the first of which is only read, as many times as contexts are long."""
        text = np.concatenate([np.repeat(ids[:1], order - 1), ids[1:]]).astype(np.int64)
        numbers = np.zeros(len(text) + 1, dtype=np.int64)  # of the n-gram before each place; the empty one is 0
        keys, ends, counts = [], [], []
        for length in range(1, order + 1):
            joined = numbers[:-1][length - 1 :] * size + text[length - 1 :]  # n-grams that end at each place
            found, first, inverse, count = np.unique(joined, return_index=True, return_inverse=True, return_counts=True)
            keys.append(found)
            ends.append(first + length - 1)  # a place where each n-gram ends
            counts.append(count)
            following = np.full(len(text) + 1, -1, dtype=np.int64)
            following[length:] = inverse
            numbers = following
        return cls(_tables(keys, ends, counts, text, size), size)

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """(N - 1,): log p of every id after the first, each after as much context as the order has."""
        order = len(self.orders)
        text = np.concatenate([np.repeat(ids[:1], order - 1), ids[1:]]).astype(np.int64)
        probability = np.full(len(text), 1.0 / self.size)
        numbers = np.zeros(len(text) + 1, dtype=np.int64)
        for length, table in enumerate(self.orders, 1):
            context = numbers[:-1]  # of the length - 1 words before each place; -1: never seen
            joined = np.where(context >= 0, context * self.size + text, -1)
            places = np.searchsorted(table.keys, joined).clip(max=len(table.keys) - 1)
            seen = table.keys[places] == joined
            rest = np.where(context >= 0, table.rest[context.clip(min=0)], 1.0)
            probability = np.where(seen, table.found[places], 0.0) + rest * probability
            numbers = np.concatenate([[-1], np.where(seen, places, -1)])
            if length == 1:
                numbers[0] = -1
        return np.log(probability[order - 1 :])


def _tables(
    keys: list[np.ndarray], ends: list[np.ndarray], counts: list[np.ndarray], text: np.ndarray, size: int
) -> list[Order]:
    """Discounted shares of every order, the longest by its counts and the others by what stands before them."""
    tables = []
    for length, (found, count) in enumerate(zip(keys, counts, strict=True), 1):
        if length < len(keys):  # how many longer n-grams end in each
            count = np.bincount(_suffixes(keys, ends[length], text, size, length), minlength=len(found))
        context = found // size
        contexts = 1 if length == 1 else len(keys[length - 2])
        discount = _discounts(count)[np.minimum(count, 3)]
        total = np.bincount(context, weights=count, minlength=contexts)
        taken = np.bincount(context, weights=np.minimum(discount, count), minlength=contexts)
        below = np.maximum(total, 1e-300)
        share = np.where(total[context] > 0, np.maximum(count - discount, 0.0) / below[context], 0.0)
        tables.append(Order(found, share, np.where(total > 0, taken / below, 1.0)))
    return tables


def _suffixes(keys: list[np.ndarray], ends: np.ndarray, text: np.ndarray, size: int, length: int) -> np.ndarray:
    """The number of the n-gram of `length` words that ends at each place."""
    numbers = np.zeros(len(ends), dtype=np.int64)
    for back in range(length - 1, -1, -1):
        numbers = np.searchsorted(keys[length - 1 - back], numbers * size + text[ends - back])
    return numbers


def _discounts(counts: np.ndarray) -> np.ndarray:
    """D for counts of 0, 1, 2 and more, from how many n-grams were seen once to four times."""
    one, two, three, four = (max(int((counts == number).sum()), 0) for number in (1, 2, 3, 4))
    if not (one and two and three):
        return np.array([0.0, FULL_DISCOUNT, FULL_DISCOUNT, FULL_DISCOUNT])
    scale = one / (one + 2 * two)
    found = [1 - 2 * scale * two / one, 2 - 3 * scale * three / two, 3 - 4 * scale * four / three]
    return np.array([0.0, *(min(max(value, 0.0), number) for number, value in enumerate(found, 1))])
