"""Classification as a task: smoothed cross-entropy over labels; accuracy and macro F1."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.metrics.labels import accuracy, macro_f1
from harken.models.heads.classifier import ClassifierModel
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.labelled.task import LabelledBatch, LabelledTask, Split
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
