"""From a recipe for classification to a run, and from a folder to a `Classifier`; how good it is on examples.

The loss is the smoothed cross-entropy over labels, the metrics are accuracy and macro F1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.data.io.token_rows import TokenRows
from harken.data.rows import Columns, id_type
from harken.data.text.examples import Labelled, LabelledSplits
from harken.data.text.examples_config import ExamplesConfig
from harken.inspection.pictures.tables import ConfusionMatrix
from harken.metrics.baselines import fit_label_baseline
from harken.metrics.calibration import brier_score, calibration_error, fit_scales, log_softmax, mean_loss, softmax
from harken.metrics.interval import bootstrap, resampled
from harken.metrics.labels import accuracy, confusion, f1_by_class, macro_f1
from harken.models.heads.classifier import ClassifierModel
from harken.tasks.baselines import COUNT, Baseline
from harken.tasks.classify.classifier import Classification, Classifier, build_classifier
from harken.tasks.classify.interface import INTERFACE, ClassifyOptions
from harken.tasks.classify.labels import LABELS, Labels, numbers_of
from harken.tasks.classify.ngrams import NGRAMS, fit_ngrams
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context import Context
from harken.tasks.job import format_counts
from harken.tasks.labelled.job import LabelledJob
from harken.tasks.labelled.reading import LabelledBatch, LabelledTask, Rows, Split
from harken.tasks.predictor import Progress
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import Sums
from harken.training.task import Indices

CALIBRATED = "calibration."  # prefix of the metrics of a validation that are for the card


class ValidationBatch(NamedTuple):
    """A batch beside n-grams; the other fields are those of `LabelledBatch`."""

    values: Any
    lengths: Tensor | None
    targets: Tensor
    ngrams: Tensor  # (B, K) logits


class ClassificationTask(LabelledTask[ClassifierModel]):
    """See `harken.tasks.sequence_task`; with fine labels, training has those and validation the merged ones."""

    def __init__(self, recipe: ClassifyRecipe, model: ClassifierModel, train: Split, valid: Split) -> None:
        super().__init__(model, recipe.train, train, valid)
        self.monitor = recipe.classifier.choose_by
        self.mode = "min" if self.monitor == "loss" else "max"
        self.weights = class_weights(train[1], model.output.out_features, recipe.classifier.class_weights)
        self.loss_of = self.compiled(self._loss)
        self.ngram_logits: np.ndarray | None = None  # (N, K) of the validation examples

    def add_ngrams(self, logits: np.ndarray) -> None:
        """Combine the network with n-grams, which have these logits (N, K) for the validation examples."""
        self.ngram_logits = logits
        if self.monitor == "loss":
            self.monitor = f"{CALIBRATED}loss"  # that of both together

    def collate(self, indices: Indices, valid: bool = False) -> LabelledBatch | ValidationBatch:  # type: ignore[override]
        batch = super().collate(indices, valid)
        if not valid or self.ngram_logits is None:
            return batch
        return ValidationBatch(*batch, torch.from_numpy(self.ngram_logits[indices]))

    def loss(self, model: ClassifierModel, batch: LabelledBatch) -> tuple[Tensor, int]:
        return self.loss_of(model, *batch, self.settings.label_smoothing), len(batch.targets)

    def _loss(
        self, model: ClassifierModel, values: Any, lengths: Tensor | None, labels: Tensor, smoothing: float
    ) -> Tensor:
        weights = None if self.weights is None else self.weights.to(labels.device)
        losses = [
            F.cross_entropy(logits.float(), labels, weights, reduction="sum", label_smoothing=smoothing)
            for logits, _ in model.each(values, lengths)  # (B, K)
        ]
        return torch.stack(losses).mean() if len(losses) > 1 else losses[0]

    def evaluate(self, model: ClassifierModel, batch: LabelledBatch | ValidationBatch) -> Sums:
        logits = model.uncalibrated(batch.values, batch.lengths)[0].float()  # (B, K)
        ngrams = [batch.ngrams] if isinstance(batch, ValidationBatch) else []
        return {
            "loss": float(F.cross_entropy(logits, batch.targets, reduction="sum")),
            "labels": batch.targets.tolist(),
            "logits": torch.stack([logits, *ngrams], 1).tolist(),  # (B, S, K)
        }

    def metrics(self, sums: Sums) -> dict[str, float]:
        """The scales of calibration are fitted here, and so belong to the weights that are validated."""
        labels, logits = np.array(sums["labels"]), np.array(sums["logits"]).swapaxes(0, 1)  # (S, N, K)
        before = combined = logits[0]
        if self.model.scales is not None:
            scales = fit_scales(list(logits), labels)
            self.model.scales.copy_(torch.from_numpy(scales))
            combined = np.tensordot(scales, logits, 1)
        metrics = {
            "loss": sums["loss"] / len(labels),
            "accuracy": accuracy(labels, combined.argmax(1)),
            "macro_f1": macro_f1(labels, combined.argmax(1)),
        }
        if self.model.scales is None:
            return metrics
        return metrics | {
            f"{CALIBRATED}loss": mean_loss(log_softmax(combined), labels),
            f"{CALIBRATED}error": calibration_error(softmax(combined), labels),
            f"{CALIBRATED}error_before": calibration_error(softmax(before), labels),
            **{f"{CALIBRATED}{name}": float(scale) for name, scale in zip(("network", "ngrams"), scales, strict=False)},
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
    artifacts = (*LabelledJob.artifacts, LABELS, NGRAMS)
    interface = INTERFACE
    estimator = "harken.estimators.classifier:SequenceClassifier"

    def load_data(self, recipe: ClassifyRecipe) -> LabelledSplits:
        return with_all_classes(super().load_data(recipe), drawn_parts(recipe.data))

    def load_table(self, recipe: ClassifyRecipe, table: dict[str, list[Any]]) -> LabelledSplits:
        return with_all_classes(super().load_table(recipe, table), drawn_parts(recipe.data))

    def learn(self, recipe: ClassifyRecipe, train: Labelled, folder: Path, resuming: bool) -> Labels:
        return LABELS.learn_or_load(folder, resuming, lambda: Labels.learn(train, recipe.classifier.fine))

    def build(self, recipe: ClassifyRecipe, inputs: int, targets: Labels, context: Context | None) -> ClassifierModel:
        head = recipe.classifier
        scales = 2 if head.ngrams == "auto" else int(head.calibrate)
        return build_classifier(recipe, inputs, len(targets.names), context, targets.merged, scales=scales)

    def network(self, model: ClassifierModel) -> ClassifierModel:
        return model

    def task(
        self,
        recipe: ClassifyRecipe,
        model: ClassifierModel,
        targets: Labels,
        rows: tuple[Rows, Rows],
        splits: LabelledSplits,
        folder: Path,
        resuming: bool,
    ) -> ClassificationTask:
        labels = training_labels(splits.train, targets)
        valid_labels = np.array(numbers_of(splits.valid.labels, targets.classes, "the validation"))
        task = ClassificationTask(recipe, model, (rows[0], labels), (rows[1], valid_labels))
        if recipe.classifier.ngrams == "auto":
            classes, count = (
                labels if targets.merged is None else np.array(targets.merged)[labels],
                len(targets.classes),
            )
            weights, seed = class_weights(classes, count, recipe.classifier.class_weights), recipe.train.seed
            parts = splits.train, classes, splits.valid, valid_labels
            ngrams = NGRAMS.learn_or_load(folder, resuming, lambda: fit_ngrams(*parts, weights, count, seed))
            logits = ngrams.logits(splits.valid.values)
            share = accuracy(valid_labels, logits.argmax(1))
            task.facts["n-grams"] = f"{len(ngrams.keys):,} of words and characters: accuracy {share:.3f} on validation"
            task.add_ngrams(logits)
        return task

    def describe(self, recipe: ClassifyRecipe, targets: Labels, train: Labelled) -> tuple[str, str, dict[str, str]]:
        name = f"{recipe.model.title}, {recipe.classifier.pooling} pooling"
        counts: Counter[str] = Counter()
        for (label, _), count in train.label_counts().items():
            counts[label] += count
        return name, f"{len(targets.classes)} classes", {"labels": format_counts(counts)}

    def score(self, model: Classifier, examples: Labelled, progress: Progress) -> Scores:
        labels = np.array(numbers_of(examples.labels, model.classes, "the test"))
        logits, unit = model.uncalibrated(examples.values, progress), "texts" if model.tokenizer else "signals"
        before = None if model.model.scales is None else softmax(logits)
        return score_labels(labels, softmax(model.calibrate(logits, examples.values)), model.classes, unit, before)

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

    def examples(self, model: Classifier, split: str, files: Sequence[Path] = ()) -> list[Any]:
        labelled = self.held_out(model, split, files)
        return list(zip(labelled.values, labelled.labels, strict=True))

    def validation(self, best: dict[str, Any]) -> str:
        known = {name: best[name] for name in ("accuracy", "macro_f1", "loss") if name in best}
        scores = ", ".join(f"{name.replace('_', ' ')} {value:.4f}" for name, value in known.items())
        calibration = {key.removeprefix(CALIBRATED): best[key] for key in best if key.startswith(CALIBRATED)}
        if not calibration:
            return scores
        ngrams = f", of the n-grams {calibration['ngrams']:.3f}" if "ngrams" in calibration else ""
        return (
            f"{scores}; calibrated: calibration error {calibration['error']:.4f} ({calibration['error_before']:.4f} "
            f"before), loss {calibration['loss']:.4f}, scale of the network {calibration['network']:.3f}{ngrams}"
        )


JOB = ClassifyJob()


def drawn_parts(data: ExamplesConfig) -> list[str]:
    """The parts without files of their own, whose examples are held out of training."""
    return [] if data.corpus else [name for name in ("valid", "test") if getattr(data, name) is None]


def with_all_classes(splits: LabelledSplits, drawn: Collection[str]) -> LabelledSplits:
    """The splits with the examples of a class that was held out as a whole back in training.

    Args:
        drawn: the parts that were held out of training. Those of data on disk, which is large, stay as they are.
    """
    known = set(splits.train.labels) if splits.train.stored is None and drawn else None
    train, parts = splits.train, {"valid": splits.valid, **splits.tests}
    for name, part in parts.items():
        if known is None or name not in drawn or known.issuperset(part.labels):
            continue
        moved = [row for row, label in enumerate(part.labels) if label not in known]
        parts[name] = part.choose(sorted(set(range(len(part))) - set(moved)))
        train = Labelled.of(chain(train.examples(), part.choose(moved).examples()), train.fine is not None)
    return replace(splits, train=train, valid=parts.pop("valid"), tests=parts)


def training_labels(train: Labelled, targets: Labels) -> np.ndarray:
    """(N,) the place of every label, or fine label, among those that are learnt."""
    side = 1 if targets.fine is None else 2

    def encode(columns: Columns) -> list[TokenRows]:
        return [TokenRows.from_lists([[number] for number in numbers_of(columns[side], targets.names, "training")])]

    types = {"labels": id_type(len(targets.names))}
    return train.rows.encode(types, encode, ["labels", side, targets.names])[0].flat


def score_labels(
    labels: np.ndarray,
    probabilities: np.ndarray,
    classes: list[str],
    unit: str = "examples",
    uncalibrated: np.ndarray | None = None,
) -> Scores:
    """Accuracy and macro F1 with intervals, calibration, the share of the most frequent class, the confusion matrix.

    Args:
        labels: (N,) the place of each right class.
        probabilities: (N, K).
        uncalibrated: (N, K), the probabilities before calibration where there was one.
    """
    predicted = probabilities.argmax(1)
    frequent = int(np.bincount(labels, minlength=len(classes)).argmax())
    calibration, details = calibration_metrics(labels, probabilities, uncalibrated)
    matrix = confusion(labels, predicted, len(classes))
    by_class = f1_by_class(labels, predicted, len(classes))
    f1 = resampled(len(labels), lambda rows: macro_f1(labels[rows], predicted[rows]))
    return Scores(
        len(labels),
        unit,
        [
            Metric.of("accuracy", bootstrap(labels == predicted), "share of labels that are right", 4),
            Metric.of("macro_f1", f1, f"mean of F1 over {len(classes)} classes", 4),
            *calibration,
            Metric("majority", accuracy(labels, np.full_like(labels, frequent)), note=f"always {classes[frequent]!r}"),
        ],
        {"confusion": ConfusionMatrix(matrix, classes)},
        {
            "classes": classes,
            "confusion": matrix.tolist(),
            "f1": [None if np.isnan(value) else value for value in by_class],
            **details,
        },
        outputs=([classes[number] for number in predicted], [classes[number] for number in labels]),
    )


def calibration_metrics(
    labels: np.ndarray, probabilities: np.ndarray, before: np.ndarray | None
) -> tuple[list[Metric], dict[str, float]]:
    """Calibration error and Brier score, beside those before calibration; and for programs also the mean loss."""
    details = {
        f"{name}{suffix}": function(values, labels)
        for suffix, values in (("", probabilities), ("_before", before))
        if values is not None
        for name, function in CALIBRATION.items()
    }

    def metric(name: str, note: str) -> Metric:
        earlier = details.get(f"{name}_before")
        note += "" if earlier is None else f"; {earlier:.4f} before calibration"
        return Metric(name, details[name], note=note, digits=4)

    return [
        metric("calibration_error", "mean distance of confidence from accuracy in 15 bins"),
        metric("brier", "mean squared error of the probabilities"),
    ], details


CALIBRATION: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "calibration_error": calibration_error,
    "brier": brier_score,
    "loss": lambda probabilities, labels: mean_loss(np.log(np.maximum(probabilities, 1e-30)), labels),
}
