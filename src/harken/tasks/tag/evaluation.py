"""How good tags are: token accuracy, and precision, recall and F1 of entities where the tags are BIO."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import Counts, counts_by_kind, is_bio, sentence_counts
from harken.tasks.scores import Metric, Scores
from harken.tasks.tag.pictures import confusion_picture


def evaluate(tags: Sequence[str], gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> Scores:
    """Scores of sentences; their intervals draw sentences whole, since the words of one are no strangers."""
    right = [sum(a == b for a, b in zip(row, made, strict=True)) for row, made in zip(gold, found, strict=True)]
    lengths = [len(row) for row in gold]
    accuracy = Metric.of("accuracy", bootstrap(right, lengths), f"of {sum(lengths):,} words", digits=4)
    pictures = {"confusion": confusion_picture(gold, found)}
    if not is_bio(tags):
        return Scores(len(gold), "sentences", [accuracy], dict(pictures))
    rows = np.array([sentence_counts(row, made) for row, made in zip(gold, found, strict=True)])  # (sentences, 3)

    def metric(name: str, note: str) -> Metric:
        interval = resampled(len(rows), lambda chosen: getattr(_sum(rows[chosen]), name))
        return Metric.of(name, interval, note, digits=4)

    kinds = counts_by_kind(gold, found)
    by_kind = [
        Metric(f"f1 {kind}", counts.f1, note=f"precision {counts.precision:.3f}, recall {counts.recall:.3f}", digits=4)
        for kind, counts in kinds.items()
    ]
    whole = f"of {int(rows[:, 2].sum()):,} entities, kind and both ends right"
    metrics = [metric("f1", whole), metric("precision", ""), metric("recall", ""), accuracy, *by_kind]
    return Scores(
        len(gold), "sentences", metrics, dict(pictures), {"entities": {k: c._asdict() for k, c in kinds.items()}}
    )


def _sum(rows: np.ndarray) -> Counts:
    return Counts(*(int(number) for number in rows.sum(0)))
