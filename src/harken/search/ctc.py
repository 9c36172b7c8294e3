"""Decoding of CTC outputs: the best path, the best text by prefix beam search, and the alignment of a text.

Best path (greedy): the most probable label of every frame, repeats merged, blanks dropped. It need not be the best
text: several less probable paths of another text may sum to more (Graves et al., 2006, section 3.2).

Prefix beam search sums the paths of a text. Two sums are kept for every prefix: of its paths that end in a blank, and
of those that end in its last symbol; only after a blank may that symbol be repeated. A prefix is ranked by

    log p_ctc(prefix) + weight log p_lm(prefix) + bonus |prefix|

and at the end also by the language model's probability that the text ends here. With a beam as wide as the number of
prefixes the search is exact (Hannun et al., 2014, "First-Pass Large Vocabulary Continuous Speech Recognition using
Bi-Directional Recurrent DNNs").

Alignment (Viterbi, 1967) is the recursion of `harken.nn.ctc` with a maximum in place of the sum, then traced back:

    delta_t(s) = max(delta_{t-1}(s), delta_{t-1}(s-1), delta_{t-1}(s-2)) + log p_t(l'_s)

>>> path = np.log(np.array([[0.1, 0.9], [0.2, 0.8], [0.9, 0.1], [0.3, 0.7]]))
>>> greedy_ctc(path)
[1, 1]
>>> even = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))  # blank, blank is the best path, but "1" is the best text
>>> best = prefix_search(even, beam=4)
>>> best[0].symbols, round(float(np.exp(best[0].score)), 2)
((1,), 0.64)
>>> frames = np.log(np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]))
>>> align_ctc(frames, [1, 2])
[Span(start=1, end=3, confidence=0.8), Span(start=3, end=4, confidence=0.8)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, log1p
from typing import NamedTuple, Protocol

import numpy as np

BLANK = 0


def greedy_ctc(log_probs: np.ndarray) -> list[int]:
    """The symbols of the best path through (T, V + 1)."""
    return collapse(log_probs.argmax(1).tolist())


def collapse(path: Sequence[int]) -> list[int]:
    """Merge repeats and drop blanks.

    >>> collapse([0, 1, 1, 0, 1, 2, 2, 0])
    [1, 1, 2]
    """
    before = [BLANK, *path][: len(path)]
    return [label for label, last in zip(path, before, strict=True) if label not in (BLANK, last)]


Prefix = tuple[int, ...]


class SymbolModel(Protocol):
    """A language model over symbols, such as `harken.models.language.ngram.NGram`."""

    def log_probability(self, symbol: int, before: Prefix) -> float:
        """log p(symbol | before)."""

    def log_end(self, before: Prefix) -> float:
        """log p(the text ends | before)."""


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One text."""

    symbols: Prefix
    score: float  # by which it is ranked
    log_probability: float  # of CTC only, over the paths that were kept


def prefix_search(
    log_probs: np.ndarray,
    beam: int,
    *,
    language: SymbolModel | None = None,
    weight: float = 0.0,
    bonus: float = 0.0,
    prune: float = 0.0,
    nbest: int = 1,
) -> list[CtcHypothesis]:
    """The best texts of (T, V + 1), best first.

    Args:
        beam: prefixes kept at every frame.
        weight: of the language model.
        bonus: per symbol, against the language model's preference for short texts.
        prune: symbols less probable than this at a frame are skipped there; 0 skips none.
    """
    language = language if weight != 0.0 else None
    lowest = log(prune) if prune > 0 else -inf
    prior: dict[Prefix, float] = {(): 0.0}  # weight log p_lm + bonus |prefix|, of every prefix so far
    sums: dict[Prefix, tuple[float, float]] = {(): (0.0, -inf)}  # ends in blank, ends in its last symbol
    for frame in log_probs:
        log_p = frame.tolist()
        symbols = [symbol for symbol in range(1, len(log_p)) if log_p[symbol] >= lowest]
        extended: dict[Prefix, tuple[float, float]] = {}
        for prefix, (blank, symbol_last) in sums.items():
            both = log_add(blank, symbol_last)
            stay = symbol_last + log_p[prefix[-1]] if prefix else -inf
            _add(extended, prefix, both + log_p[BLANK], stay)
            for symbol in symbols:
                # repeating the last symbol makes a longer text only after a blank
                mass = blank if prefix and symbol == prefix[-1] else both
                if mass == -inf:
                    continue
                longer = (*prefix, symbol)
                if longer not in prior:
                    added = weight * language.log_probability(symbol, prefix) if language else 0.0
                    prior[longer] = prior[prefix] + added + bonus
                _add(extended, longer, -inf, mass + log_p[symbol])
        ranked = sorted(extended.items(), key=lambda item: -(log_add(*item[1]) + prior[item[0]]))
        sums = dict(ranked[:beam])
    hypotheses = []
    for prefix, ends in sums.items():
        total = log_add(*ends)
        ended = weight * language.log_end(prefix) if language else 0.0
        hypotheses.append(CtcHypothesis(prefix, total + prior[prefix] + ended, total))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:nbest]


def _add(sums: dict[Prefix, tuple[float, float]], prefix: Prefix, blank: float, symbol_last: float) -> None:
    old = sums.get(prefix)
    sums[prefix] = (blank, symbol_last) if old is None else (log_add(old[0], blank), log_add(old[1], symbol_last))


def log_add(first: float, second: float) -> float:
    """log(e^one + e^other)."""
    low, high = sorted((first, second))
    return high if low == -inf else high + log1p(exp(low - high))


class Span(NamedTuple):
    """The frames of one symbol (end exclusive) and its highest probability in them."""

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
    """(T,): the index in blank y_1 blank y_2 ... blank at every frame."""
    labels = np.full(2 * len(symbols) + 1, BLANK)
    labels[1::2] = symbols
    may_skip = np.zeros(len(labels), dtype=bool)
    may_skip[3::2] = labels[3::2] != labels[1:-2:2]
    emitted = log_probs[:, labels]  # (T, 2 S + 1)
    best = np.where(np.arange(len(labels)) < 2, emitted[0], -np.inf)
    steps = np.zeros(emitted.shape, dtype=np.int8)  # by how many labels the best path advanced: 0, 1 or 2
    for time in range(1, len(emitted)):
        choices = np.full((3, len(labels)), -np.inf)
        choices[0], choices[1, 1:] = best, best[:-1]
        choices[2, 2:] = np.where(may_skip[2:], best[:-2], -np.inf)
        steps[time] = choices.argmax(0)
        best = choices.max(0) + emitted[time]
    state = len(labels) - 1
    if len(labels) > 1 and best[-2] > best[-1]:
        state -= 1
    if best[state] == -np.inf:
        raise ValueError(f"{len(emitted)} frames are too few for {len(symbols)} symbols")
    path = np.empty(len(emitted), dtype=np.int64)
    for time in range(len(emitted) - 1, -1, -1):
        path[time] = state
        state -= int(steps[time, state])
    return path
