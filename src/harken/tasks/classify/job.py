"""From a recipe for classification to a run, and from a folder to a `Classifier`; how good it is on examples.

The loss is the smoothed cross-entropy over labels, the metrics are accuracy and macro F1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type
from harken.data.text.examples import Labelled, LabelledSplits
from harken.inspection.pictures.tables import ConfusionMatrix
from harken.metrics.baselines import fit_label_baseline
from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import accuracy, confusion, f1_by_class, macro_f1
from harken.models.heads.classifier import ClassifierModel
from harken.tasks.baselines import COUNT, Baseline
from harken.tasks.classify.classifier import Classification, Classifier, build_classifier
from harken.tasks.classify.interface import INTERFACE, ClassifyOptions
from harken.tasks.classify.labels import LABELS, Labels, numbers_of
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context import Context
from harken.tasks.job import format_counts
from harken.tasks.labelled.job import LabelledJob
from harken.tasks.labelled.reading import LabelledBatch, LabelledTask, Rows, Split
from harken.tasks.predictor import Progress
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import Sums


class ClassificationTask(LabelledTask[ClassifierModel]):
    """See `harken.tasks.sequence_task`; with fine labels, training has those and validation the merged ones."""

    def __init__(self, recipe: ClassifyRecipe, model: ClassifierModel, train: Split, valid: Split) -> None:
        super().__init__(model, recipe.train, train, valid)
        self.monitor = recipe.classifier.choose_by
        self.mode = "min" if self.monitor == "loss" else "max"
        self.weights = class_weights(train[1], model.output.out_features, recipe.classifier.class_weights)
        self.loss_of = self.compiled(self._loss)

    def loss(self, model: ClassifierModel, batch: LabelledBatch) -> tuple[Tensor, int]:
        return self.loss_of(model, *batch), len(batch.targets)

    def _loss(self, model: ClassifierModel, values: Any, lengths: Tensor | None, labels: Tensor) -> Tensor:
        weights = None if self.weights is None else self.weights.to(labels.device)
        smoothing = self.settings.label_smoothing
        losses = [
            F.cross_entropy(logits.float(), labels, weights, reduction="sum", label_smoothing=smoothing)
            for logits, _ in model.each(values, lengths)  # (B, K)
        ]
        return torch.stack(losses).mean() if len(losses) > 1 else losses[0]

    def evaluate(self, model: ClassifierModel, batch: LabelledBatch) -> Sums:
        logits = model(batch.values, batch.lengths)[0].float()  # (B, K)
        return {
            "loss": float(F.cross_entropy(logits, batch.targets, reduction="sum")),
            "labels": batch.targets.tolist(),
            "predicted": logits.argmax(-1).tolist(),
        }

    def metrics(self, sums: Sums) -> dict[str, float]:
        labels, predicted = np.array(sums["labels"]), np.array(sums["predicted"])
        return {
            "loss": sums["loss"] / len(labels),
            "accuracy": accuracy(labels, predicted),
            "macro_f1": macro_f1(labels, predicted),
        }


def class_weights(labels: np.ndarray, classes: int, kind: str) -> Tensor | None:
    """N / (K n_k) for each of K classes, so that the mean over the N examples is 1.

    >>> class_weights(np.array([0, 0, 0, 1]), 2, "balanced").tolist()
    [0.6666666865348816, 2.0]
    """
    if kind == "none":
        return None
    counts = torch.from_numpy(np.bincount(labels, minlength=classes)).clamp(min=1)
    return len(labels) / (classes * counts.float())


class ClassifyJob(LabelledJob):
    """See `harken.tasks.labelled.job`."""

    predictor = Classifier
    artifacts = (*LabelledJob.artifacts, LABELS)
    interface = INTERFACE

    def learn(self, recipe: ClassifyRecipe, train: Labelled, folder: Path, resuming: bool) -> Labels:
        return LABELS.learn_or_load(folder, resuming, lambda: Labels.learn(train, recipe.classifier.fine))

    def build(self, recipe: ClassifyRecipe, inputs: int, targets: Labels, context: Context | None) -> ClassifierModel:
        return build_classifier(recipe, inputs, len(targets.names), context, targets.merged)

    def network(self, model: ClassifierModel) -> ClassifierModel:
        return model

    def task(
        self,
        recipe: ClassifyRecipe,
        model: ClassifierModel,
        targets: Labels,
        rows: tuple[Rows, Rows],
        splits: LabelledSplits,
    ) -> ClassificationTask:
        labels = training_labels(splits.train, targets)
        valid_labels = np.array(numbers_of(splits.valid.labels, targets.classes, "the validation"))
        return ClassificationTask(recipe, model, (rows[0], labels), (rows[1], valid_labels))

    def describe(self, recipe: ClassifyRecipe, targets: Labels, train: Labelled) -> tuple[str, str, dict[str, str]]:
        name = f"{recipe.model.title}, {recipe.classifier.pooling} pooling"
        counts: Counter[str] = Counter()
        for (label, _), count in train.label_counts().items():
            counts[label] += count
        return name, f"{len(targets.classes)} classes", {"labels": format_counts(counts)}

    def score(self, model: Classifier, examples: Labelled, progress: Progress) -> Scores:
        labels = np.array(numbers_of(examples.labels, model.classes, "the test"))
        probabilities = model.predict_proba(examples.values, progress)
        return score_labels(labels, probabilities, model.classes, "texts" if model.tokenizer else "signals")

    def baseline(self, recipe: ClassifyRecipe, train: Labelled, parts: Mapping[str, Labelled]) -> Baseline:
        fitted, count = fit_label_baseline(train.values, train.labels, recipe.train.seed)
        scores = {}
        for name, part in parts.items():
            pairs = zip(fitted.predict(part.values), part.labels, strict=True)
            right = [predicted == label for predicted, label in pairs]
            scores[name] = {"accuracy": sum(right) / max(1, len(right)), COUNT: len(right)}
        return Baseline(fitted.name, "accuracy", scores, count, sampled=count < len(train))

    def predict(
        self, model: Classifier, examples: Sequence[Any], options: ClassifyOptions, progress: Progress
    ) -> list[Classification]:
        return [Classification(model.classes, row) for row in model.predict_proba(examples, progress)]

    def facts(self, model: Classifier) -> dict[str, Any]:
        return {"classes": model.classes}

    def examples(self, model: Classifier, split: str) -> list[Any]:
        labelled = self.held_out(model, split)
        return list(zip(labelled.values, labelled.labels, strict=True))

    def validation(self, best: dict[str, Any]) -> str:
        known = {name: best[name] for name in ("accuracy", "macro_f1", "loss") if name in best}
        return ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in known.items())


JOB = ClassifyJob()


def training_labels(train: Labelled, targets: Labels) -> np.ndarray:
    """(N,) the place of every label, or fine label, among those that are learnt."""
    side = 1 if targets.fine is None else 2

    def encode(columns: Columns) -> list[TokenRows]:
        return [TokenRows.from_lists([[number] for number in numbers_of(columns[side], targets.names, "training")])]

    types = {"labels": id_type(len(targets.names))}
    return train.rows.encode(types, encode, ["labels", side, targets.names])[0].flat


def score_labels(labels: np.ndarray, probabilities: np.ndarray, classes: list[str], unit: str = "examples") -> Scores:
    """Accuracy and macro F1 with intervals, and the confusion matrix.

    Args:
        labels: (N,) the place of each right class.
        probabilities: (N, K).
    """
    predicted = probabilities.argmax(1)
    matrix = confusion(labels, predicted, len(classes))
    by_class = f1_by_class(labels, predicted, len(classes))
    f1 = resampled(len(labels), lambda rows: macro_f1(labels[rows], predicted[rows]))
    return Scores(
        len(labels),
        unit,
        [
            Metric.of("accuracy", bootstrap(labels == predicted), "share of labels that are right", 4),
            Metric.of("macro_f1", f1, f"mean of F1 over {len(classes)} classes", 4),
        ],
        {"confusion": ConfusionMatrix(matrix, classes)},
        {
            "classes": classes,
            "confusion": matrix.tolist(),
            "f1": [None if np.isnan(value) else value for value in by_class],
            "loss": float(-np.log(np.maximum(probabilities[np.arange(len(labels)), labels], 1e-30)).mean()),
        },
        outputs=([classes[number] for number in predicted], [classes[number] for number in labels]),
    )
