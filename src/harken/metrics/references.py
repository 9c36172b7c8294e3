"""BLEU where every output has several right answers, as pictures have several captions (sacrebleu, with signature).

An n-gram counts as found if any reference of the same line has it, as often as the one that has it most; the length
compared is that of the nearest reference (Papineni et al., 2002). Lines may have different numbers of references.

>>> bleu_of_many(["a red dot here now"], [["a dot", "a red dot here now"]]).value.__round__(1)
100.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harken.errors import UserError
from harken.metrics.bleu import Score
from harken.metrics.interval import Interval, resampled


def bleu_of_many(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """Corpus BLEU with sacrebleu's default settings.

    Raises:
        UserError: no lines, or a line without references.
    """
    metric, streams = _prepared(hypotheses, references)
    result = metric.corpus_score(list(hypotheses), streams)
    return Score(str(result.name), float(result.score), str(metric.get_signature()))


def bleu_interval(hypotheses: Sequence[str], references: Sequence[Sequence[str]], samples: int = 1000) -> Interval:
    """BLEU and its 95% interval, by drawing lines anew."""
    metric, streams = _prepared(hypotheses, references)
    counts = np.asarray(metric._extract_corpus_statistics(list(hypotheses), streams), dtype=np.float64)

    def score(rows: np.ndarray) -> float:
        return float(metric._compute_score_from_stats(list(counts[rows].sum(0))).score)

    return resampled(len(hypotheses), score, samples)


def line_bleu(hypothesis: str, references: Sequence[str]) -> float:
    """BLEU of one line, with counts of nothing smoothed; only to rank lines by."""
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(effective_order=True).sentence_score(hypothesis, list(references)).score)


def _prepared(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[Any, list[list[str | None]]]:
    from sacrebleu.metrics.bleu import BLEU

    if len(hypotheses) != len(references) or not hypotheses or not all(references):
        raise UserError(
            f"{len(hypotheses)} outputs and {len(references)} lists of references cannot be scored; give one or more "
            "references for each output"
        )
    most = max(map(len, references))
    streams = [[line[place] if place < len(line) else None for line in references] for place in range(most)]
    return BLEU(), streams
