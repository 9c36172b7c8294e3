"""The text with the most probability under CTC, over all its paths, and what a language model thinks of it.

Prefixes grow frame by frame. Of every prefix two sums are kept: of its paths that end in a blank, and of those that end
in its last symbol; only after a blank may that symbol come again. A prefix is ranked by

    log p_ctc(prefix) + weight log p_lm(prefix) + bonus |prefix|

and at the end by the same with the language model's chance that the text ends here. As wide as there are prefixes,
the search is exact. Reference: Hannun et al. (2014), "First-Pass Large Vocabulary Continuous Speech Recognition using
Bi-Directional Recurrent DNNs".

>>> even = np.log(np.array([[0.6, 0.4], [0.6, 0.4]]))  # blank, blank is the best path, but "1" is the best text
>>> best = prefix_search(even, beam=4)
>>> best[0].symbols, round(float(np.exp(best[0].score)), 2)
((1,), 0.64)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log, log1p
from typing import Protocol

import numpy as np

from harken.search.ctc_greedy import BLANK

Prefix = tuple[int, ...]


class SymbolModel(Protocol):
    """What knows how likely a symbol is after others."""

    def log_chance(self, symbol: int, before: Prefix) -> float:
        """log p(symbol | before)."""

    def log_end(self, before: Prefix) -> float:
        """log p(the text ends | before)."""


@dataclass(frozen=True, slots=True)
class CtcHypothesis:
    """One text."""

    symbols: Prefix
    score: float  # as it is ranked
    log_probability: float  # of CTC alone, over the paths that were kept


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
        bonus: for every symbol, against the language model's liking for short texts.
        prune: symbols less likely than this at a frame are not tried there; 0 tries all.
    """
    speaks = language is not None and weight != 0.0
    lowest = log(prune) if prune > 0 else -inf
    spoken: dict[Prefix, float] = {(): 0.0}  # weight log p_lm + bonus, of every prefix met
    kept: dict[Prefix, tuple[float, float]] = {(): (0.0, -inf)}  # ends in blank, ends in its last symbol
    for frame in log_probs:
        chances = frame.tolist()
        tried = [symbol for symbol in range(1, len(chances)) if chances[symbol] >= lowest]
        grown: dict[Prefix, tuple[float, float]] = {}
        for prefix, (blank, symbol_last) in kept.items():
            both = log_add(blank, symbol_last)
            stay = symbol_last + chances[prefix[-1]] if prefix else -inf
            _add(grown, prefix, both + chances[BLANK], stay)
            for symbol in tried:
                # The last symbol again makes a longer text only where a blank stood between.
                came = blank if prefix and symbol == prefix[-1] else both
                if came == -inf:
                    continue
                longer = (*prefix, symbol)
                if longer not in spoken:
                    said = weight * language.log_chance(symbol, prefix) if speaks and language is not None else 0.0
                    spoken[longer] = spoken[prefix] + said + bonus
                _add(grown, longer, -inf, came + chances[symbol])
        ranked = sorted(grown.items(), key=lambda item: -(log_add(*item[1]) + spoken[item[0]]))
        kept = dict(ranked[:beam])
    found = []
    for prefix, sums in kept.items():
        total = log_add(*sums)
        ended = weight * language.log_end(prefix) if speaks and language is not None else 0.0
        found.append(CtcHypothesis(prefix, total + spoken[prefix] + ended, total))
    return sorted(found, key=lambda one: -one.score)[:nbest]


def _add(sums: dict[Prefix, tuple[float, float]], prefix: Prefix, blank: float, symbol_last: float) -> None:
    old = sums.get(prefix)
    sums[prefix] = (blank, symbol_last) if old is None else (log_add(old[0], blank), log_add(old[1], symbol_last))


def log_add(one: float, other: float) -> float:
    """log(e^one + e^other)."""
    if one < other:
        one, other = other, one
    return one if other == -inf else one + log1p(exp(other - one))
