"""A tree that grows to the right: labelled nodes with a number each, one path through it highlighted.

>>> tree = Tree("", "score", [Branch(-1, "the", -0.5, 2), Branch(0, "cat", -0.7, 2), Branch(0, "dog", -2.0)])
>>> tree.depths(), tree.lanes()
([0, 1, 1], [0.0, 0.0, 1.0])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Branch:
    """One node: its parent's index (-1: none), label and number; parents come before their children."""

    parent: int
    label: str
    value: float
    rank: int = 0  # 2: on the highlighted path; 1: on a path to a finished end; 0: given up
    note: str = ""  # said behind a node without children


@dataclass(frozen=True)
class Tree:
    """Nodes over their depth; the path with rank 2 stands out."""

    title: str
    value_label: str
    nodes: Sequence[Branch]

    def depths(self) -> list[int]:
        """The depth of every node; that of the roots is 0."""
        depths: list[int] = []
        for node in self.nodes:
            depths.append(0 if node.parent < 0 else depths[node.parent] + 1)
        return depths

    def children(self) -> list[list[int]]:
        """The children of every node, best first; the roots are the last entry."""
        children: list[list[int]] = [[] for _ in range(len(self.nodes) + 1)]
        for index, node in enumerate(self.nodes):
            children[node.parent].append(index)
        for siblings in children:
            siblings.sort(key=lambda index: (-self.nodes[index].rank, -self.nodes[index].value))
        return children

    def paths(self) -> list[tuple[str, Branch]]:
        """Every node that has no children, with the labels on the way to it."""
        whole: list[str] = []
        for node in self.nodes:
            whole.append(node.label if node.parent < 0 else f"{whole[node.parent]} {node.label}")
        parents = {node.parent for node in self.nodes}
        return [(whole[index], node) for index, node in enumerate(self.nodes) if index not in parents]

    def lanes(self) -> list[float]:
        """The line each node stands on: leaves have one each, and a parent stands with its first child."""
        children, lane = self.children(), [0.0] * len(self.nodes)
        used = 0

        def place(index: int) -> None:
            nonlocal used
            lane[index] = float(used)
            for number, child in enumerate(children[index]):
                used += 1 if number else 0
                place(child)

        for number, root in enumerate(children[-1]):
            used += 1 if number else 0
            place(root)
        return lane
