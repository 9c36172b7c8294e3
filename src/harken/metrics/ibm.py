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

import numpy as np

from harken.data.text.pairs import Link

TENSION = 4.0  # how much nearer the diagonal is likelier; fast_align starts there
EMPTY = 0.08  # probability that a target word comes from no source word, as fast_align has it
Texts = Sequence[tuple[str, str]]


def align(training: Texts, wanted: Texts, iterations: int = 6, tension: float = TENSION) -> list[list[Link]]:
    """Links (source word, target word) of every wanted pair; the wanted pairs are learned from as well."""
    texts = [*training, *wanted]
    sources, targets = ([pair[side].split() for pair in texts] for side in (0, 1))
    source_ids, target_ids = _numbered(sources, first=1), _numbered(targets, first=0)  # 0 is the empty word
    e, f, prior, group = _expanded(source_ids, target_ids, tension)
    width = 1 + max((int(row.max()) for row in target_ids if len(row)), default=0)
    cells, cell = np.unique(e.astype(np.int64) * width + f, return_inverse=True)  # the pairs of words that meet
    of_source = (cells // width).astype(np.int64)
    table = np.ones(len(cells))
    for _ in range(iterations):
        share = _shares(table[cell] * prior, group)
        count = np.bincount(cell, share, len(cells))
        table = count / np.bincount(of_source, count)[of_source]
    posterior = table[cell] * prior
    return _links(posterior, source_ids, target_ids, len(training))


def _numbered(sentences: Sequence[Sequence[str]], first: int) -> list[np.ndarray]:
    numbers: dict[str, int] = {}
    return [
        np.array([numbers.setdefault(word.lower(), first + len(numbers)) for word in words], dtype=np.int64)
        for words in sentences
    ]


def _expanded(
    sources: list[np.ndarray], targets: list[np.ndarray], tension: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Every target word with the empty word and every source word of its pair: ids, d, and which target word it is."""
    columns: list[list[np.ndarray]] = [[], [], [], []]
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


def _links(posterior: np.ndarray, sources: list[np.ndarray], targets: list[np.ndarray], first: int) -> list[list[Link]]:
    found, start = [], 0
    for number, (source, target) in enumerate(zip(sources, targets, strict=True)):
        size = (len(source) + 1) * len(target)
        if number >= first:
            best = posterior[start : start + size].reshape(len(target), -1).argmax(1) if len(target) else []
            found.append([(int(i) - 1, j) for j, i in enumerate(best) if i > 0])
        start += size
    return found
