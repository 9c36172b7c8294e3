"""Output distributions of word2vec: negative sampling by an alias table, and hierarchical softmax by a Huffman tree.

Negative samples are drawn in proportion to count^0.75. An alias table needs a single random number per draw: V columns
of height 1, each split between two words; the integer part of a number in [0, V) selects the column, its fraction the
word. It takes 12 bytes a word and fits the cache, unlike the usual table of a hundred million entries.

In hierarchical softmax every word is a leaf of a binary tree, and V words have V - 1 inner nodes:

    p(w | h) = product over the inner nodes n on w's path of sigmoid(±v_n . h)      + for left, - for right

Random numbers are a 64-bit linear congruential sequence, of which the upper 53 bits are used; reference and kernel use
the same one. References: Walker, 1977 (alias method); Mikolov et al., 2013 (the power 0.75, the Huffman tree); Morin
and Bengio, 2005 (hierarchical softmax); Knuth (constants).

>>> table = alias_table(np.array([8, 1, 1]), power=1.0)
>>> draws = Draws(7)
>>> counts = np.bincount([draws.alias(*table) for _ in range(10_000)])
>>> counts.round(-2).tolist()
[8000, 1000, 1000]
>>> tree = huffman_tree(np.array([5, 2, 1]))
>>> [(tree.nodes_of(word).tolist(), tree.labels_of(word).tolist()) for word in range(3)]
[([1], [0.0]), ([1, 0], [1.0, 0.0]), ([1, 0], [1.0, 1.0])]
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 6364136223846793005
INCREMENT = 1442695040888963407
UNIT = 2.0**-53
POWER = 0.75


class Draws:
    """The random number generator of the kernel, one number at a time."""

    def __init__(self, state: int) -> None:
        self.state = state

    def uniform(self) -> float:
        """A number in [0, 1)."""
        self.state = (self.state * MULTIPLIER + INCREMENT) % 2**64
        return (self.state >> 11) * UNIT

    def alias(self, height: NDArray[np.float32], other: NDArray[np.int32]) -> int:
        """A word in proportion to its weight."""
        position = self.uniform() * len(height)
        column = int(position)
        return column if position - column < height[column] else int(other[column])


def initial_vectors(rows: int, width: int, seed: int) -> NDArray[np.float32]:
    """(rows, width) uniform in -1/width .. 1/width."""
    drawn = np.random.default_rng(seed).random((rows, width), dtype=np.float32)
    return (np.float32(2) * drawn - np.float32(1)) / np.float32(width)


def span_state(seed: int, epoch: int, span: int) -> int:
    """The generator's state for a span of the text, so that spans may be trained in any order."""
    mixed = (seed * 0x9E3779B97F4A7C15 + epoch * 0xBF58476D1CE4E5B9 + span * 0x94D049BB133111EB + 1) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ mixed >> shift) * factor % 2**64
    return mixed ^ mixed >> 31


def alias_table(counts: NDArray[np.int64], power: float = POWER) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """(V,) each: the share of column w that belongs to word w, and the word that has the rest."""
    weights = counts.astype(np.float64) ** power
    size = len(weights)
    share = (weights / weights.sum() * size).tolist()
    height, other = [1.0] * size, list(range(size))
    low = [number for number in range(size) if share[number] < 1]
    high = [number for number in range(size) if share[number] >= 1]
    while low and high:
        small, large = low.pop(), high[-1]
        height[small], other[small] = share[small], large
        share[large] -= 1 - share[small]
        if share[large] < 1:
            low.append(high.pop())
    return np.array(height, dtype=np.float32), np.array(other, dtype=np.int32)


@dataclass(frozen=True)
class Tree:
    """The paths of all words, concatenated."""

    starts: NDArray[np.int64]  # (V + 1,): offsets of the words' paths
    nodes: NDArray[np.int32]  # inner nodes from the root
    labels: NDArray[np.float32]  # 1 for left, 0 for right

    def nodes_of(self, word: int) -> NDArray[np.int32]:
        """The inner nodes on the path of a word."""
        return self.nodes[self.starts[word] : self.starts[word + 1]]

    def labels_of(self, word: int) -> NDArray[np.float32]:
        """The target of each of those nodes."""
        return self.labels[self.starts[word] : self.starts[word + 1]]

    @property
    def longest(self) -> int:
        """The length of the longest path."""
        return int(np.diff(self.starts).max())


def huffman_tree(counts: NDArray[np.int64]) -> Tree:
    """Merge the two rarest repeatedly; inner nodes are numbered in the order of merging."""
    size = len(counts)
    heap = [(int(count), -number) for number, count in enumerate(counts)]  # of equal counts the later word first
    heapq.heapify(heap)
    parent: dict[int, tuple[int, int]] = {}  # leaf (its number) or inner node (size + number) -> parent, side
    for node in range(size - 1):
        pair = heapq.heappop(heap), heapq.heappop(heap)
        for side, (_, name) in enumerate(pair):
            parent[abs(name)] = (node, side)
        heapq.heappush(heap, (pair[0][0] + pair[1][0], size + node))
    nodes: list[int] = []
    labels: list[int] = []
    starts = [0]
    for word in range(size):
        path = []
        current = word
        while current in parent:
            node, side = parent[current]
            path.append((node, side))
            current = size + node
        nodes += [node for node, _ in reversed(path)]
        labels += [1 - side for _, side in reversed(path)]
        starts.append(len(nodes))
    return Tree(np.array(starts), np.array(nodes, dtype=np.int32), np.array(labels, dtype=np.float32))
