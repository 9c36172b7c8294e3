"""The beam as a tree: every prefix that was ever live, what became of it, and why the best hypothesis won.

`BeamRecorder` observes a search of one source (`observe=` of `beam_search`); `beam_tree` makes a tree of what it saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from harken.data.tokenizers.tokens import EOS, PAD
from harken.search.beam import BeamStep
from harken.search.hypotheses import ROOT, Hypothesis, Prefixes
from harken.search.ranking import Ranking


@dataclass(frozen=True)
class TreeNode:
    """One live prefix of one step."""

    parent: int  # index of the node before, -1: none
    token: int
    log_probability: float  # of the token
    total: float  # of the prefix
    outcome: str  # "live": went on; "dropped": left the beam; "finished", "best"; "cut off" at the maximum length


@dataclass(frozen=True)
class Terms:
    """The rank of a hypothesis, split: rank = (log_probability + rules) / divisor + reward + coverage."""

    log_probability: float
    rules: float
    divisor: float
    reward: float
    coverage: float
    rank: float


def terms_of(hypothesis: Hypothesis, ranking: Ranking) -> Terms:
    """The terms of a hypothesis' final score."""
    length = len(hypothesis.tokens) + hypothesis.finished
    return Terms(
        hypothesis.score,
        hypothesis.added,
        float(ranking.divisor(length)),
        ranking.word_reward * length,
        hypothesis.coverage,
        hypothesis.normalised,
    )


@dataclass
class BeamRecorder:
    """Keeps the tree of prefixes of a search."""

    prefixes: Prefixes | None = None
    steps: int = 0
    sizes: list[int] = field(default_factory=list)  # live hypotheses after each step

    def __call__(self, step: BeamStep) -> None:
        self.prefixes, self.steps = step.prefixes, step.length
        self.sizes.append(int((step.scores[0] > float("-inf")).sum()))


def beam_tree(recorder: BeamRecorder, hypotheses: list[Hypothesis]) -> list[TreeNode]:
    """The nodes of a recorded search, parents first; hypotheses that finished end in a node for EOS."""
    assert recorder.prefixes is not None
    tokens, parents, scores = recorder.prefixes.table()
    real = np.flatnonzero(tokens != PAD)
    position = {int(node): index for index, node in enumerate(real)}
    position[ROOT] = ROOT
    totals: dict[int, float] = {ROOT: 0.0}
    nodes: list[TreeNode] = []
    has_child = {int(parent) for parent in parents[real]}
    for node in real.tolist():
        totals[node] = totals[int(parents[node])] + float(scores[node])
        outcome = "live" if node in has_child else "dropped"
        nodes.append(
            TreeNode(position[int(parents[node])], int(tokens[node]), float(scores[node]), totals[node], outcome)
        )
    by_path = {tuple(path): index for index, path in enumerate(_paths(nodes))}
    for rank, hypothesis in enumerate(hypotheses):
        end = by_path.get(tuple(hypothesis.tokens), ROOT)
        if hypothesis.finished:
            outcome = "finished" if rank else "best"
            nodes.append(TreeNode(end, EOS, hypothesis.token_scores[-1], hypothesis.score, outcome))
        elif end != ROOT:
            old = nodes[end]
            nodes[end] = TreeNode(old.parent, old.token, old.log_probability, old.total, "cut off" if rank else "best")
    return nodes


def _paths(nodes: list[TreeNode]) -> list[list[int]]:
    paths: list[list[int]] = []
    for node in nodes:
        paths.append([*(paths[node.parent] if node.parent >= 0 else []), node.token])
    return paths
