"""An n-gram language model: interpolated Kneser-Ney smoothing with three discounts.

    p(w | c) = max(0, n(c w) - D) / n(c) + g(c) p(w | c'),   D = D1, D2 or D3 for n = 1, 2, 3 and more

c' is the context c without its first word, and g(c) the probability mass that was discounted. For the longest n-grams n
is their count; for all shorter ones it is the number of distinct words before them, since a shorter context is used
where the longer one was not seen. Below the unigrams all words are equally likely. Chen and Goodman (1999), "modified
Kneser-Ney"; Kneser and Ney (1995).

It is the baseline of every language model (`train`, `log_probabilities`: one long text, vectorised) and the language
model of CTC beam search (`from_texts`, `log_probability`: many short texts with a beginning and an end).

N-grams of order n are numbered by (the number of the first n - 1 words, the last word), so that all counting is sorting
whole arrays.

>>> text = np.array([3, 4, 5, 3, 4, 5, 3, 4, 6, 3])
>>> model = NGram.train(text, size=7, order=3)
>>> bool(np.isclose(sum(np.exp(model.log_probabilities(np.array([3, 4, w]))[-1]) for w in range(7)), 1))
True
>>> model = NGram.from_texts([[1, 2], [1, 2], [1, 2], [1, 3]], symbols=3, order=2)
>>> total = sum(np.exp(model.log_probability(symbol, (1,))) for symbol in (1, 2, 3)) + np.exp(model.log_end((1,)))
>>> bool(np.isclose(total, 1))
True
>>> model.log_probability(2, (1,)) > model.log_probability(3, (1,)) > model.log_probability(1, (1,))
True
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, Field

DEFAULT_DISCOUNT = 0.5  # where a text is too small to estimate the discounts
END = 0  # the symbol after the last of a text; CTC has its blank there, which is no symbol of a text
BEGIN = -1  # the symbol before the first, in files
MAX_SIZE, MAX_COUNT = 10**7, 10**9  # symbols, and all counts together, that a file may state


class _Stored(BaseModel):
    """The content that `NGram.to_json` writes."""

    size: int = Field(ge=0, le=MAX_SIZE)
    order: int = Field(ge=1)
    counts: list[tuple[list[int], list[tuple[int, int]]]]  # history -> (symbol, count) of what follows it


@dataclass(frozen=True)
class Order:
    """All n-grams of one length."""

    keys: np.ndarray  # (G,) sorted: number of the first n - 1 words x stride + last word
    probability: np.ndarray  # (G,) max(0, n - D) / n(context)
    backoff: np.ndarray  # (contexts,) g of every context


class NGram:
    """Tables of every order, made by `train` or `from_texts`.

    Args:
        size: ids that can follow a context are below it.
        stride: number of all ids, those that only occur in contexts included.
    """

    def __init__(self, orders: Sequence[Order], size: int, stride: int | None = None) -> None:
        self.orders, self.size, self.stride = list(orders), size, stride or size
        self.counts: Counter[tuple[int, ...]] = Counter()  # of the longest n-grams, for `to_json`
        self._rows: dict[tuple[int, ...], np.ndarray] = {}  # log p(. | context), as they are asked for

    @classmethod
    def train(cls, ids: np.ndarray, size: int, order: int = 5) -> NGram:
        """Train on one text of ids below `size`; its first id is context only, repeated to the length of a context."""
        text = _padded(ids, order)
        return cls(_fit(text, np.ones(len(text), dtype=bool), size, order), size)

    @classmethod
    def from_texts(cls, texts: Iterable[Sequence[int]], symbols: int, order: int) -> NGram:
        """Train on texts over the symbols 1 to `symbols`, each followed by `END`."""
        counts: Counter[tuple[int, ...]] = Counter()
        for text in texts:
            padded = [symbols + 1] * (order - 1) + list(text) + [END]
            counts.update(tuple(padded[start : start + order]) for start in range(len(padded) - order + 1))
        return cls._from_counts(counts, symbols, order)

    @classmethod
    def _from_counts(cls, counts: Counter[tuple[int, ...]], symbols: int, order: int) -> NGram:
        grams = np.array(sorted(counts), dtype=np.int64).reshape(-1, order)
        text = np.repeat(grams, np.array([counts[tuple(gram)] for gram in grams.tolist()], dtype=np.int64), 0).ravel()
        is_event = np.arange(len(text)) % order == order - 1  # of every n-gram only the last symbol is predicted
        model = cls(_fit(text, is_event, symbols + 2, order), symbols + 1, symbols + 2)
        model.counts = counts
        return model

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """(N - 1,): log p of every id after the first, each after as much context as the order has."""
        order = len(self.orders)
        text = _padded(ids, order)
        probability = np.full(len(text), 1.0 / self.size)
        numbers = np.zeros(len(text) + 1, dtype=np.int64)
        for length, table in enumerate(self.orders, 1):
            context = numbers[:-1]  # of the length - 1 words before each position; -1: never seen
            key = np.where(context >= 0, context * self.stride + text, -1)
            rows = np.searchsorted(table.keys, key).clip(max=len(table.keys) - 1)
            is_known = table.keys[rows] == key
            backoff = np.where(context >= 0, table.backoff[context.clip(min=0)], 1.0)
            probability = np.where(is_known, table.probability[rows], 0.0) + backoff * probability
            numbers = np.concatenate([[-1], np.where(is_known, rows, -1)])
            if length == 1:
                numbers[0] = -1
        return np.log(probability[order - 1 :])

    def log_probability(self, symbol: int, before: Sequence[int]) -> float:
        """log p(symbol | the symbols of a text before it)."""
        needed = len(self.orders) - 1
        context = (self.stride - 1,) * (needed - len(before)) + tuple(before[max(0, len(before) - needed) :])
        if context not in self._rows:
            self._rows[context] = self._row(context)
        return float(self._rows[context][symbol])

    def log_end(self, before: Sequence[int]) -> float:
        """log p(the text ends | the symbols before)."""
        return self.log_probability(END, before)

    def _row(self, context: tuple[int, ...]) -> np.ndarray:
        """(size,): log p of every id after a context."""
        row = np.full(self.stride, 1.0 / self.size)
        for length, table in enumerate(self.orders):
            number = self._number(context[len(context) - length :])
            if number is None:
                break
            first, last = np.searchsorted(table.keys, [number * self.stride, (number + 1) * self.stride])
            row *= table.backoff[number]
            row[table.keys[first:last] - number * self.stride] += table.probability[first:last]
        with np.errstate(divide="ignore"):  # log 0 is -inf
            return np.log(row[: self.size])

    def _number(self, gram: tuple[int, ...]) -> int | None:
        """The number of an n-gram among those of its length, or None where it was not seen."""
        number = 0
        for word, table in zip(gram, self.orders, strict=False):
            key = number * self.stride + word
            number = int(np.searchsorted(table.keys, key))
            if number == len(table.keys) or table.keys[number] != key:
                return None
        return number

    def to_json(self) -> str:
        """The counts of a model made by `from_texts`, from which `from_json` makes it again."""
        begin = self.stride - 1
        histories: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        for gram, count in sorted(self.counts.items()):
            history = tuple(BEGIN if symbol == begin else symbol for symbol in gram[:-1])
            histories.setdefault(history, []).append((gram[-1], count))
        stored = {"size": self.size - 1, "order": len(self.orders), "counts": list(histories.items())}
        return json.dumps(stored, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> NGram:
        """Read what `to_json` wrote; files of earlier versions have the shorter histories too, which are not needed.

        Raises:
            ValueError: it is damaged.
        """
        stored = _Stored.model_validate_json(text, strict=True)
        symbols, order = stored.size, stored.order
        counts: Counter[tuple[int, ...]] = Counter()
        for history, following in stored.counts:
            if len(history) == order - 1:
                before = tuple(symbols + 1 if symbol == BEGIN else symbol for symbol in history)
                counts.update({(*before, symbol): count for symbol, count in following})
        if not counts or min(counts.values()) < 1 or sum(counts.values()) > MAX_COUNT:
            raise ValueError("there are no counts, or counts that no text has")
        if not all(END <= symbol <= symbols + 1 for gram in counts for symbol in gram):
            raise ValueError(f"a symbol is not among the {symbols}")
        return cls._from_counts(counts, symbols, order)


def _padded(ids: np.ndarray, order: int) -> np.ndarray:
    return np.concatenate([np.repeat(ids[:1], order - 1), ids[1:]]).astype(np.int64)


def _fit(text: np.ndarray, is_event: np.ndarray, stride: int, order: int) -> list[Order]:
    """The tables of all orders; n-grams count where their last word is an event, else they are contexts only."""
    numbers = np.zeros(len(text) + 1, dtype=np.int64)  # of the n-gram before each position; the empty one is 0
    keys, ends, counts = [], [], []
    for length in range(1, order + 1):
        key = numbers[:-1][length - 1 :] * stride + text[length - 1 :]  # n-grams that end at each position
        distinct, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        keys.append(distinct)
        ends.append(first + length - 1)  # a position where each n-gram ends
        counts.append(np.bincount(inverse[is_event[length - 1 :]], minlength=len(distinct)))
        numbers = np.full(len(text) + 1, -1, dtype=np.int64)
        numbers[length:] = inverse
    tables = []
    for length, (distinct, count) in enumerate(zip(keys, counts, strict=True), 1):
        if length < order:  # the number of longer n-grams that end in each
            longer = ends[length][counts[length] > 0]
            count = np.bincount(_suffixes(keys, longer, text, stride, length), minlength=len(distinct))
        context = distinct // stride
        contexts = 1 if length == 1 else len(keys[length - 2])
        discount = _discounts(count)[np.minimum(count, 3)]
        total = np.bincount(context, weights=count, minlength=contexts)
        discounted = np.bincount(context, weights=np.minimum(discount, count), minlength=contexts)
        below = np.maximum(total, 1e-300)
        share = np.where(total[context] > 0, np.maximum(count - discount, 0.0) / below[context], 0.0)
        tables.append(Order(distinct, share, np.where(total > 0, discounted / below, 1.0)))
    return tables


def _suffixes(keys: list[np.ndarray], ends: np.ndarray, text: np.ndarray, stride: int, length: int) -> np.ndarray:
    """The number of the n-gram of `length` words that ends at each position."""
    numbers = np.zeros(len(ends), dtype=np.int64)
    for back in range(length - 1, -1, -1):
        numbers = np.searchsorted(keys[length - 1 - back], numbers * stride + text[ends - back])
    return numbers


def _discounts(counts: np.ndarray) -> np.ndarray:
    """D for counts of 0, 1, 2 and more, from the numbers of n-grams seen once to four times."""
    once, twice, thrice, more = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    if not (once and twice and thrice):
        return np.array([0.0, DEFAULT_DISCOUNT, DEFAULT_DISCOUNT, DEFAULT_DISCOUNT])
    scale = once / (once + 2 * twice)
    discounts = [1 - 2 * scale * twice / once, 2 - 3 * scale * thrice / twice, 3 - 4 * scale * more / thrice]
    return np.array([0.0, *(min(max(value, 0.0), number) for number, value in enumerate(discounts, 1))])
