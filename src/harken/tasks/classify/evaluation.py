"""How good a classifier is on labelled examples: accuracy and macro F1 with intervals, and the confusion matrix."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harken.data.text.examples import Labelled
from harken.inspection.tables import ConfusionMatrix
from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import confusion, f1_by_class, macro_f1
from harken.tasks.classify.classifier import Classifier
from harken.tasks.classify.labels import numbers_of
from harken.tasks.scores import Metric, Scores


def score_examples(model: Classifier, examples: Labelled, progress: Callable[[int], None] | None = None) -> Scores:
    """Score a loaded model.

    Raises:
        UserError: labels the model does not know, or examples it cannot read.
    """
    right = np.array(numbers_of(examples.labels, model.classes, "the test"))
    chances = model.predict_proba(examples.values, progress)
    said = chances.argmax(1)
    matrix = confusion(right, said, len(model.classes))
    by_class = f1_by_class(right, said, len(model.classes))
    return Scores(
        len(examples),
        "texts" if model.tokenizer else "signals",
        [
            Metric.of("accuracy", bootstrap(right == said), "share of labels that are right", 4),
            Metric.of(
                "macro_f1",
                resampled(len(right), lambda rows: macro_f1(right[rows], said[rows])),
                f"mean of F1 over {len(model.classes)} classes",
                4,
            ),
        ],
        {"confusion": ConfusionMatrix(matrix, model.classes)},
        {
            "classes": model.classes,
            "confusion": matrix.tolist(),
            "f1": [None if np.isnan(value) else value for value in by_class],
            "loss": float(-np.log(np.maximum(chances[np.arange(len(right)), right], 1e-30)).mean()),
        },
    )
