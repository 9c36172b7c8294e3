"""BLEU and chrF as sacrebleu computes them, with the signature that makes a score comparable.

    BLEU = min(1, exp(1 - r/c)) * exp(1/4 * sum_n log p_n)          (Papineni et al., 2002)
    chrF = (1 + 4) * P * R / (4 * P + R) over character 1- to 6-grams (Popović, 2015)

where c and r are the lengths of output and reference, and p_n is the share of the output's n-grams found in the
reference. Both are on a scale of 0 to 100. The signature says how the text was tokenised and smoothed (Post, 2018).

>>> round(corpus_bleu(["the black cat sleeps"], ["the black cat sleeps"]).value, 2)
100.0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harken.errors import UserError

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric


@dataclass(frozen=True, slots=True)
class Score:
    """A number with the settings it was made with."""

    name: str  # "BLEU", "chrF2"
    value: float  # 0 to 100
    signature: str  # sacrebleu's

    def __str__(self) -> str:
        return f"{self.name} {self.value:.2f} ({self.signature})"


def corpus_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """BLEU of detokenised lines, cased, with the 13a tokenisation that published scores use."""
    return corpus_score(metric_named("bleu"), hypotheses, references)


def corpus_chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """chrF2: character n-grams, so that a wrong ending of a right word counts for something."""
    return corpus_score(metric_named("chrf"), hypotheses, references)


def metric_named(name: str) -> Metric:
    """sacrebleu's metric with its default settings.

    Raises:
        UserError: a name that is neither "bleu" nor "chrf".
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if name == "bleu":
        return BLEU()
    if name == "chrf":
        return CHRF()
    raise UserError(f'There is no metric "{name}"; choose "bleu" or "chrf".')


def corpus_score(metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score all lines at once.

    Raises:
        UserError: no lines, or not one reference for every output.
    """
    check_lines(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(str(result.name), float(result.score), str(metric.get_signature()))


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuse what cannot be scored."""
    if len(hypotheses) != len(references):
        raise UserError(f"There are {len(hypotheses)} outputs and {len(references)} references; give one for each.")
    if not hypotheses:
        raise UserError("There are no lines to score; give at least one output with its reference.")
