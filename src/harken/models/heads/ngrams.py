"""A bag of n-grams: a linear classifier of texts, which few examples suffice for.

x_j = (1 + ln n_j) idf_j / norm               n_j: how often the text has n-gram j
idf_j = 1 + ln((1 + D) / (1 + d_j))           D training texts, d_j of them with the n-gram
p(k | x) = softmax_k(W x + b)

N-grams are those of 1 to 3 words, which are runs of letters, marks and digits, with a mark before the first word of a
text, and of 1 to 5 characters of a piece between spaces with a space on either side; x has norm 1 over each of both
kinds. So a word that no training text has is read by its parts, and a text without spaces by its characters. Those of
characters can be left out, which makes long texts five times as fast to read.

Weights are scaled by how much an n-gram says about a class (Wang and Manning, 2012):

W_kj = r_kj V_kj,  r_kj = |log p(j | k) - log p(j | other classes)|      shares of the texts' n-grams, smoothed by 1

V and b minimise the cross-entropy summed over the texts plus |V|^2 / (2 C), a convex problem that L-BFGS solves (Liu
and Nocedal, 1989). The vocabulary is a sorted array of 64-bit hashes.

>>> texts, labels = ["a good film", "good!", "bad", "a bad story"] * 4, np.array([0, 0, 1, 1] * 4)
>>> model = NGrams.learn(texts, labels=2)
>>> model.fit(model.matrix(texts), labels, strength=10.0)
>>> model.logits(["goodness", "the worst of bad films"]).argmax(1).tolist()
[0, 1]
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

CHARACTERS = 5  # of the longest n-gram of characters
LEAST_TEXTS = 2  # that have an n-gram of the vocabulary
MAX_NGRAMS = 200_000
MAX_WEIGHTS = 4_000_000  # n-grams times labels
ITERATIONS = 50
SMALLEST_RATIO = 1e-3
BASE = np.uint64(0x9E3779B97F4A7C15)  # of polynomial hashes; odd, and of many bits
WORDS, PAIRS, TRIPLES, PARTS = (
    np.uint64(number) for number in (0xD1B54A32D192ED03, 0xABC98388FB8FAC03, 0x94D049BB133111EB, 0x8CB92BA72F3D8DD7)
)
BEGINNING = np.array([0xBF58476D1CE4E5B9], np.uint64)  # stands before the first word


@dataclass
class NGrams:
    """Texts -> logits (N, K)."""

    keys: np.ndarray  # (V,) of uint64, ascending
    idf: np.ndarray  # (V,)
    weight: Tensor  # (V, K)
    bias: Tensor  # (K,)
    characters: bool = True  # whether there are n-grams of characters

    @classmethod
    def learn(cls, texts: Sequence[str], labels: int, characters: bool = True) -> Self:
        """The most frequent n-grams of training texts, with weights of 0 for every label."""
        parts = [np.unique(hashes) for text in texts for hashes in hashes_of(text, characters)]
        keys, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]), return_counts=True)
        keys, counts = keys[counts >= LEAST_TEXTS], counts[counts >= LEAST_TEXTS]
        most = max(1, min(MAX_NGRAMS, MAX_WEIGHTS // labels))
        chosen = np.sort(np.argsort(-counts, kind="stable")[:most])
        idf = 1 + np.log((1 + len(texts)) / (1 + counts[chosen]))
        weight, bias = torch.zeros(len(chosen), labels), torch.zeros(labels)
        return cls(keys[chosen], idf.astype(np.float32), weight, bias, characters)

    def matrix(self, texts: Iterable[str]) -> SparseMatrix:
        """The features x of all texts (N, V)."""
        columns, values, starts = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)], [0]
        for text in texts:
            starts.append(starts[-1])
            for hashes in hashes_of(text, self.characters):
                keys, counts = np.unique(hashes, return_counts=True)
                places = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
                known = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
                weighted = (1 + np.log(counts[known])) * self.idf[places[known]]
                columns.append(places[known])
                values.append((weighted / max(float(np.linalg.norm(weighted)), 1e-12)).astype(np.float32))
                starts[-1] += int(known.sum())
        indices, features = (torch.from_numpy(np.concatenate(parts)) for parts in (columns, values))
        return SparseMatrix(indices, features, torch.tensor(starts))

    def logits(self, texts: Sequence[str]) -> np.ndarray:
        """(N, K), normalised to log-probabilities."""
        return self.scores(self.matrix(texts))

    def scores(self, texts: SparseMatrix) -> np.ndarray:
        """As `logits`, of texts as `matrix` gives them."""
        log_probs: np.ndarray = torch.log_softmax(texts.times(self.weight) + self.bias, -1).numpy()
        return log_probs

    def fit(
        self, texts: SparseMatrix, labels: np.ndarray, strength: float, class_weights: Tensor | None = None
    ) -> None:
        """Logistic regression with scaled weights by L-BFGS, from the present weights on.

        Args:
            texts: (N, V) as `matrix` gives them.
            labels: (N,) numbers of their classes.
            strength: C, the inverse strength of the penalty.
            class_weights: (K,) by which the terms of the loss are multiplied.
        """
        bias, count = self.bias, len(labels)
        transposed = texts.transposed(len(self.weight))  # (V, N), for the gradient
        numbers = torch.from_numpy(labels.astype(np.int64))
        targets = F.one_hot(numbers, len(bias)).float()  # (N, K)
        factors = torch.ones(count, 1) if class_weights is None else class_weights[numbers][:, None]
        ratios = log_ratios(transposed, factors * targets)  # (V, K)
        scaled = self.weight / ratios.clamp(min=SMALLEST_RATIO)
        optimizer = torch.optim.LBFGS(
            [scaled, bias], max_iter=ITERATIONS, tolerance_change=1e-7, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            log_probs = torch.log_softmax(texts.times(ratios * scaled) + bias, -1)
            residuals = factors * (log_probs.exp() - targets) / count
            scaled.grad = ratios * transposed.times(residuals) + scaled / (strength * count)
            bias.grad = residuals.sum(0)
            loss = -(factors * targets * log_probs).sum() / count
            return loss + scaled.square().sum() / (2 * strength * count)

        with torch.no_grad():
            optimizer.step(closure)
        self.weight, bias.grad = ratios * scaled, None


def log_ratios(ngrams: SparseMatrix, targets: Tensor) -> Tensor:
    """|log p(j | k) - log p(j | other classes)| (V, K) of n-grams (V, N) in texts with classes `targets` (N, K)."""
    counts = ngrams._replace(values=torch.ones_like(ngrams.values)).times(targets)  # texts of a class with an n-gram
    inside, outside = counts + 1, counts.sum(1, keepdim=True) - counts + 1
    return (torch.log(inside / inside.sum(0)) - torch.log(outside / outside.sum(0))).abs()


class SparseMatrix(NamedTuple):
    """A matrix (R, C) by its entries, row after row."""

    columns: Tensor  # (E,)
    values: Tensor  # (E,)
    starts: Tensor  # (R + 1,) where the entries of each row begin, and where the last ends

    def times(self, dense: Tensor) -> Tensor:
        """The product (R, D) with a dense matrix (C, D)."""
        if not len(self.columns):
            return dense.new_zeros(len(self.starts) - 1, dense.shape[1])
        return F.embedding_bag(
            self.columns, dense, self.starts, mode="sum", per_sample_weights=self.values, include_last_offset=True
        )

    def transposed(self, columns: int) -> SparseMatrix:
        """The matrix (C, R) of this one, which has so many columns."""
        order = self.columns.argsort(stable=True)
        rows = torch.arange(len(self.starts) - 1).repeat_interleave(self.starts.diff())
        starts = F.pad(self.columns.bincount(minlength=columns).cumsum(0), (1, 0))
        return SparseMatrix(rows[order], self.values[order], starts)


def hashes_of(text: str, characters: bool = True) -> tuple[np.ndarray, ...]:
    """The n-grams of words and those of characters in a text, as often as they are there; case makes no difference.

    >>> [len(keys) for keys in hashes_of("so good")]       # 2 + 2 + 1 of words, 6 + 8 + 6 + 4 + 2 of characters
    [5, 26]
    """
    spaced = f" {' '.join(text.lower().split())} "
    codes = np.frombuffer(spaced.encode("utf-32-le", "surrogatepass"), np.uint32)
    return (_words(codes), _characters(codes)) if characters else (_words(codes),)


def _words(codes: np.ndarray) -> np.ndarray:
    """Hashes of the words of a text, and of 2 and 3 neighbours; the first may be the beginning."""
    is_word = _is_word(int(codes.max()).bit_length())[codes]
    edges = np.diff(is_word.astype(np.int8))  # a text begins and ends with a space
    starts, ends = np.flatnonzero(edges == 1) + 1, np.flatnonzero(edges == -1) + 1
    if not len(starts):
        return np.zeros(0, np.uint64)
    lengths = ends - starts
    first = np.cumsum(lengths) - lengths  # where each word begins among the letters of all words
    within = np.arange(lengths.sum()) - np.repeat(first, lengths)
    letters = codes[within + np.repeat(starts, lengths)].astype(np.uint64)
    words = np.add.reduceat(letters * BASE ** (1 + within.astype(np.uint64)), first)
    marked = np.concatenate([BEGINNING, words])
    pairs = marked[:-1] * BASE + marked[1:]
    return np.concatenate([words * WORDS, pairs * PAIRS, (pairs[:-1] * BASE + marked[2:]) * TRIPLES])


def _characters(codes: np.ndarray) -> np.ndarray:
    """Hashes of 1 to `CHARACTERS` neighbours that have a space at their ends at most."""
    letters, is_space = codes.astype(np.uint64), codes == ord(" ")
    hashes, inner, parts = np.zeros(len(codes), np.uint64), np.zeros(len(codes), bool), []
    for length in range(1, CHARACTERS + 1):
        if length > len(codes):
            break
        last = slice(length - 1, None)
        hashes = hashes[: len(codes) - length + 1] * BASE + letters[last]
        if length > 2:  # the character before the last is now an inner one
            inner = inner[: len(hashes)] | is_space[length - 2 : -1]
        is_text = ~inner[: len(hashes)] if length > 1 else ~is_space
        parts.append((hashes * BASE + np.uint64(length))[is_text] * PARTS)
    return np.concatenate(parts)


@cache
def _is_word(bits: int) -> np.ndarray:
    """Of every code point of so many bits, whether words are made of it: letters, marks and digits."""
    return np.array([unicodedata.category(chr(code))[0] in "LMN" for code in range(min(1 << bits, 0x110000))])
