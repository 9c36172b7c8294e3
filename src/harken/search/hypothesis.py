"""What a search returns: one candidate output and how good the model thinks it is.

    normalised = score / length ** penalty,     length counts the end of sentence

(Wu et al., 2016, "Google's Neural Machine Translation System", without its constant 5.) A penalty of 0 ranks by
log-probability, which favours short outputs; 1 ranks by the mean log-probability of a token.

>>> normalise(-6.0, length=3, penalty=1.0)
-2.0
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One output of a search."""

    tokens: list[int]  # without BOS, without EOS
    score: float  # sum of log-probabilities, that of EOS included if finished
    normalised: float  # what hypotheses are ranked by
    finished: bool  # ended by EOS, not cut off at the maximum length


def normalise(score: float, length: int, penalty: float) -> float:
    """The score a hypothesis is ranked by; `length` counts EOS."""
    return float(score / float(length) ** penalty)
