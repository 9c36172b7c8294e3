"""A classic word aligner to measure others against: IBM model 1 (Brown et al., 1993), with fast_align's diagonal.

    P(f_j, a_j = i | e)  =  t(f_j | e_i) d(i | j)        d(i | j) ∝ exp(-TENSION |i / S - j / T|), or even (model 1)

t is learned by expectation maximisation from sentence pairs alone: every target word shares itself out among the words
of its source sentence by t d, and t becomes the mean of the shares. With the diagonal it is close to model 2 as
reparameterised by Dyer et al. (2013), "A Simple, Fast, and Effective Reparameterization of IBM Model 2". Every target
word is linked to its most probable source word, or to none where the empty word is more probable.

>>> pairs = [("the cat", "le chat"), ("the dog", "le chien"), ("a cat", "un chat")] * 3
>>> align(pairs, [("a dog", "un chien")])
[[(0, 0), (1, 1)]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from harken.data.text.pairs import Link

TENSION = 4.0  # how much nearer the diagonal is likelier; fast_align starts there
EMPTY = 0.08  # probability that a target word comes from no source word, as fast_align has it
CHUNK = 2**22  # pairs of words that are held at once
Texts = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class LexicalTable:
    """t(f | e) for the pairs of words that share a sentence pair; word 0 of the source is the empty word."""

    width: int  # words of the target
    cells: np.ndarray  # (C,) int64 in rising order: source * width + target
    probability: np.ndarray  # (C,)

    @property
    def source(self) -> np.ndarray:
        """(C,) the source word of each cell."""
        return self.cells // self.width

    @property
    def target(self) -> np.ndarray:
        """(C,) the target word of each cell."""
        return self.cells % self.width

    def places(self, e: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Where the cells of known pairs of words are."""
        return np.searchsorted(self.cells, e.astype(np.int64) * self.width + f)


def learn_table(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], iterations: int = 6, tension: float = TENSION
) -> LexicalTable:
    """Expectation maximisation over sentences of word numbers; those of the source begin at 1.

    Sentences are read some at a time, so the table alone has to fit into memory.

    >>> table = learn_table([np.array([1, 2]), np.array([1])], [np.array([0, 1]), np.array([0])], iterations=20)
    >>> dict(zip(table.target[table.source == 2].tolist(), table.probability[table.source == 2].round(2), strict=True))
    {0: np.float64(0.0), 1: np.float64(1.0)}
    """
    width = 1 + max((int(row.max()) for row in targets if len(row)), default=0)
    parts = _parts(sources, targets)
    counted = []
    for part in parts:  # the first iteration, from an even table, also finds the cells
        e, f, prior, group = _expanded(sources[part], targets[part], tension)
        keys, cell = np.unique(e.astype(np.int64) * width + f, return_inverse=True)
        counted.append((keys, np.bincount(cell, _shares(prior, group), len(keys))))
    cells, cell = np.unique(np.concatenate([keys for keys, _ in counted]), return_inverse=True)
    table = LexicalTable(width, cells, np.bincount(cell, np.concatenate([count for _, count in counted]), len(cells)))
    of_source = table.source
    for iteration in range(iterations):
        count = np.zeros(len(cells)) if iteration else table.probability
        for part in parts if iteration else ():
            e, f, prior, group = _expanded(sources[part], targets[part], tension)
            cell = table.places(e, f)
            count += np.bincount(cell, _shares(table.probability[cell] * prior, group), len(cells))
        table = replace(table, probability=count / np.bincount(of_source, count)[of_source])
    return table


def align(training: Texts, pairs: Texts, iterations: int = 6, tension: float = TENSION) -> list[list[Link]]:
    """Links (source word, target word) of every pair of `pairs`, which are learned from as well."""
    texts = [*training, *pairs]
    sources, targets = ([pair[side].split() for pair in texts] for side in (0, 1))
    source_ids, target_ids = _numbered(sources, first=1), _numbered(targets, first=0)  # 0 is the empty word
    table = learn_table(source_ids, target_ids, iterations, tension)
    source_ids, target_ids = source_ids[len(training) :], target_ids[len(training) :]
    e, f, prior, _ = _expanded(source_ids, target_ids, tension)
    return _links(table.probability[table.places(e, f)] * prior, source_ids, target_ids)


def _parts(sources: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> list[slice]:
    """Slices of sentences with about `CHUNK` pairs of words each."""
    sizes = np.cumsum([(len(source) + 1) * len(target) for source, target in zip(sources, targets, strict=True)])
    edges = [0, *(np.searchsorted(sizes, np.arange(CHUNK, sizes[-1], CHUNK)) + 1).tolist()] if len(sizes) else [0]
    edges = sorted({min(edge, len(sources)) for edge in (*edges, len(sources))})
    return [slice(low, high) for low, high in pairwise(edges)]


def _numbered(sentences: Sequence[Sequence[str]], first: int) -> list[np.ndarray]:
    numbers: dict[str, int] = {}
    return [
        np.array([numbers.setdefault(word.lower(), first + len(numbers)) for word in words], dtype=np.int64)
        for words in sentences
    ]


def _expanded(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], tension: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every target word with the empty word and every source word of its pair: ids, d, and which target word it is."""
    none = np.empty(0, np.int64)
    columns: list[list[np.ndarray]] = [[none], [none], [np.empty(0)], [none]]
    done = 0
    for source, target in zip(sources, targets, strict=True):
        size, length = len(source), len(target)
        i, j = (np.arange(size) + 0.5) / max(size, 1), (np.arange(length) + 0.5) / max(length, 1)
        near = np.exp(-tension * np.abs(i[None, :] - j[:, None]))  # (T, S)
        near *= (1 - EMPTY) / np.maximum(near.sum(1, keepdims=True), 1e-300)
        prior = np.concatenate([np.full((length, 1), EMPTY), near], 1)  # (T, 1 + S)
        columns[0].append(np.tile(np.concatenate([[0], source]), length))
        columns[1].append(np.repeat(target, size + 1))
        columns[2].append(prior.ravel())
        columns[3].append(np.repeat(np.arange(done, done + length), size + 1))
        done += length
    return tuple(np.concatenate(column) for column in columns)  # type: ignore[return-value]


def _shares(weights: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Weights made to sum to 1 within each target word."""
    return weights / np.maximum(np.bincount(group, weights)[group], 1e-300)


def _links(posterior: np.ndarray, sources: list[np.ndarray], targets: list[np.ndarray]) -> list[list[Link]]:
    links, start = [], 0
    for source, target in zip(sources, targets, strict=True):
        size = (len(source) + 1) * len(target)
        best = posterior[start : start + size].reshape(len(target), -1).argmax(1) if len(target) else []
        links.append([(int(i) - 1, j) for j, i in enumerate(best) if i > 0])
        start += size
    return links
