"""Hierarchical softmax: every word is a leaf of a binary tree, and is predicted by the turns on the way to it.

p(w | h) = product over the inner nodes n on w's path of sigmoid(±v_n . h)      + for a left turn, - for a right one

V words have V - 1 inner nodes, and a path is short where the word is frequent. Reference: Morin and Bengio, 2005; the
Huffman tree is Mikolov et al.'s, 2013.

>>> tree = huffman_tree(np.array([5, 2, 1]))
>>> [(tree.nodes_of(word).tolist(), tree.answers_of(word).tolist()) for word in range(3)]
[([1], [0.0]), ([1, 0], [1.0, 0.0]), ([1, 0], [1.0, 1.0])]
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Tree:
    """The paths of all words, one after the other."""

    starts: NDArray[np.int64]  # (V + 1,): where each word's path begins
    nodes: NDArray[np.int32]  # inner nodes from the root on, by number
    answers: NDArray[np.float32]  # 1 for a left turn, 0 for a right one

    def nodes_of(self, word: int) -> NDArray[np.int32]:
        """The inner nodes on the way to a word."""
        return self.nodes[self.starts[word] : self.starts[word + 1]]

    def answers_of(self, word: int) -> NDArray[np.float32]:
        """What each of them should say."""
        return self.answers[self.starts[word] : self.starts[word + 1]]

    @property
    def longest(self) -> int:
        """Nodes on the longest path."""
        return int(np.diff(self.starts).max())


def huffman_tree(counts: NDArray[np.int64]) -> Tree:
    """Join the two rarest, again and again; inner nodes are numbered in the order they are made."""
    size = len(counts)
    heap = [(int(count), -number) for number, count in enumerate(counts)]  # among equals the rarer word, by its number
    heapq.heapify(heap)
    parent: dict[int, tuple[int, int]] = {}  # leaf (its number) or inner node (size + number) -> parent, turn
    for node in range(size - 1):
        pair = heapq.heappop(heap), heapq.heappop(heap)
        for turn, (_, name) in enumerate(pair):
            parent[abs(name)] = (node, turn)
        heapq.heappush(heap, (pair[0][0] + pair[1][0], size + node))
    nodes: list[int] = []
    answers: list[int] = []
    starts = [0]
    for word in range(size):
        path = []
        place = word
        while place in parent:
            node, turn = parent[place]
            path.append((node, turn))
            place = size + node
        nodes += [node for node, _ in reversed(path)]
        answers += [1 - turn for _, turn in reversed(path)]
        starts.append(len(nodes))
    return Tree(np.array(starts), np.array(nodes, dtype=np.int32), np.array(answers, dtype=np.float32))
