"""How well predicted word links agree with links that people drew.

    AER = 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

A are the predicted links, S the sure and P the possible gold links (S is part of P): leaving out a sure link and adding
an impossible one are errors, a possible link is neither. Och and Ney, 2003, "A Systematic Comparison of Various
Statistical Alignment Models". A link (i, j) joins source word i and target word j, counted from 0.

>>> gold = Alignment(sure=frozenset({(0, 0), (1, 1)}), possible=frozenset({(0, 0), (1, 1), (2, 1)}))
>>> alignment_error_rate([{(0, 0), (2, 1)}], [gold])        # 1 - (1 + 2) / (2 + 2)
0.25
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harken.data.text.pairs import Alignment, Link
from harken.errors import UserError


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Agreement over a whole test set."""

    precision: float  # share of predicted links that are possible
    recall: float  # share of sure links that were predicted
    error_rate: float


def alignment_score(predicted: Sequence[Collection[Link]], gold: Sequence[Alignment]) -> AlignmentScore:
    """Precision, recall and error rate, counted over all sentences together.

    Where nothing was asked for and nothing predicted, all is right: precision and recall are 1, the error rate is 0.

    Raises:
        UserError: not one prediction for every gold alignment.
    """
    if len(predicted) != len(gold):
        raise UserError(f"There are {len(predicted)} predicted and {len(gold)} gold alignments; give one for each.")
    links = sure = in_sure = in_possible = 0
    for guess, truth in zip(predicted, gold, strict=True):
        guess = set(guess)
        links += len(guess)
        sure += len(truth.sure)
        in_sure += len(guess & truth.sure)
        in_possible += len(guess & (truth.possible | truth.sure))
    return AlignmentScore(
        precision=in_possible / links if links else 1.0,
        recall=in_sure / sure if sure else 1.0,
        error_rate=1.0 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0,
    )


def alignment_error_rate(predicted: Sequence[Collection[Link]], gold: Sequence[Alignment]) -> float:
    """The alignment error rate over all sentences together: 0 is perfect, 1 is all wrong."""
    return alignment_score(predicted, gold).error_rate
