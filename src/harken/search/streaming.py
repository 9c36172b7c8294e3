"""Streaming: the tokens that are certain before a search has ended.

Greedy search and sampling never take a token back. Beam search does, but the prefix that all live hypotheses share with
the best finished one is a prefix of every possible result, so it can be shown at once: this is exact, and no later
step changes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harken.data.tokenizers.tokens import EOS, PAD
from harken.lazy_torch import torch
from harken.search.hypotheses import NEG_INF

if TYPE_CHECKING:
    from torch import Tensor

    from harken.search.beam import BeamStep


class CertainPrefix:
    """Observes the search of one source, and calls `emit` with all certain tokens whenever there are more."""

    def __init__(self, emit: Callable[[list[int]], None]) -> None:
        self.emit, self.tokens = emit, list[int]()

    def __call__(self, step: BeamStep | Tensor | list[list[int]]) -> None:
        if isinstance(step, list):  # of the compiled search: all that the result may begin with
            tokens = common_prefix(step) if step else []
        elif isinstance(step, torch.Tensor):
            tokens = [token for token in step[0].tolist() if token not in (EOS, PAD)]
        else:
            tokens = _shared(step)
        if len(tokens) > len(self.tokens):
            self.tokens = tokens
            self.emit(tokens)


def _shared(step: BeamStep) -> list[int]:
    ends = step.nodes[0][step.scores[0] > NEG_INF].tolist() if not bool(step.done[0]) else []
    if bool(step.best.normalised[0, 0] > NEG_INF):
        ends.append(int(step.best.nodes[0, 0]))
    if not ends:
        return []
    rows, _ = step.prefixes.trace(np.array(ends))
    return common_prefix(rows)


def common_prefix(rows: Sequence[Sequence[int]]) -> list[int]:
    """The longest beginning of all rows.

    >>> common_prefix([[4, 5, 6], [4, 5], [4, 5, 7]])
    [4, 5]
    """
    first, last = min(map(list, rows)), max(map(list, rows))  # in lexical order all others lie between
    same = next((at for at, (low, high) in enumerate(zip(first, last, strict=False)) if low != high), None)
    return list(first[: min(len(first), len(last)) if same is None else same])
