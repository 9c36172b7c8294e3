"""When each symbol of a text was said: the best of the paths that CTC sums for it.

delta_t(s) = max(delta_{t-1}(s), delta_{t-1}(s-1), delta_{t-1}(s-2)) + log p_t(l'_s)

the pass of `harken.nn.ctc` with the best in place of the sum, then traced back. A greedy text has its greedy path.
Reference: Viterbi (1967).

>>> frames = np.log(np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))
>>> align_ctc(frames, [1, 2])
[Span(start=1, end=3, confidence=0.8), Span(start=3, end=4, confidence=0.8)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from harken.search.ctc_greedy import BLANK


class Span(NamedTuple):
    """The frames that say one symbol, the last not counted, and the highest probability it has in them."""

    start: int
    end: int
    confidence: float


def align_ctc(log_probs: np.ndarray, symbols: Sequence[int]) -> list[Span]:
    """A span for each symbol of the text, on its best path through (T, V + 1).

    Raises:
        ValueError: there are too few frames for the text.
    """
    path = best_path(log_probs, symbols)
    spans = []
    for number, symbol in enumerate(symbols):
        frames = np.flatnonzero(path == 2 * number + 1)
        best = float(np.exp(log_probs[frames, symbol].max()))
        spans.append(Span(int(frames[0]), int(frames[-1]) + 1, round(best, 6)))
    return spans


def best_path(log_probs: np.ndarray, symbols: Sequence[int]) -> np.ndarray:
    """(T,) the place in blank y_1 blank y_2 ... blank at every frame."""
    labels = np.full(2 * len(symbols) + 1, BLANK)
    labels[1::2] = symbols
    may_skip = np.zeros(len(labels), dtype=bool)
    may_skip[3::2] = labels[3::2] != labels[1:-2:2]
    emitted = log_probs[:, labels]  # (T, 2 S + 1)
    best = np.where(np.arange(len(labels)) < 2, emitted[0], -np.inf)
    steps = np.zeros(emitted.shape, dtype=np.int8)  # how far each came: 0, 1 or 2
    for time in range(1, len(emitted)):
        choices = np.full((3, len(labels)), -np.inf)
        choices[0], choices[1, 1:] = best, best[:-1]
        choices[2, 2:] = np.where(may_skip[2:], best[:-2], -np.inf)
        steps[time] = choices.argmax(0)
        best = choices.max(0) + emitted[time]
    place = len(labels) - 1
    if len(labels) > 1 and best[-2] > best[-1]:
        place -= 1
    if best[place] == -np.inf:
        raise ValueError(f"{len(emitted)} frames are too few for {len(symbols)} symbols")
    path = np.empty(len(emitted), dtype=np.int64)
    for time in range(len(emitted) - 1, -1, -1):
        path[time] = place
        place -= int(steps[time, place])
    return path
