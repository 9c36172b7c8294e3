"""Classification as a task: examples of like length in batches, smoothed cross-entropy over labels, accuracy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.metrics.labels import accuracy, macro_f1
from harken.models.heads.classifier import ClassifierModel
from harken.tasks.by_length import ByLength, rows_of_part
from harken.tasks.classify.reading import Rows
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.training.task import Indices


class ClassificationTask(ByLength):
    """See `harken.training.task.Task`."""

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: ClassifierModel,
        train: Rows,
        train_labels: Sequence[int],
        valid: Rows,
        valid_labels: Sequence[int],
    ) -> None:
        self.recipe, self.settings, self.model = recipe, recipe.train, model
        self.train, self.valid = train, valid
        self.train_labels = torch.tensor(train_labels, dtype=torch.long)
        self.valid_labels = np.asarray(valid_labels, dtype=np.int64)
        self.lengths = train.lengths
        self.monitor: str = recipe.classifier.choose_by
        self.mode = "min" if self.monitor == "loss" else "max"
        self.weights = class_weights(self.train_labels, model.output.out_features, recipe.classifier.class_weights)
        self.loss_of: Callable[..., Tensor] = self._loss
        if recipe.train.compile:
            self.loss_of = torch.compile(self._loss, dynamic=True)

    def size(self, examples: Indices) -> int:
        """Labels."""
        return len(examples)

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the examples."""
        values, lengths = self.train.gather(examples)
        padded = int(lengths.min()) < values.shape[1]
        device = next(self.model.parameters()).device
        labels = self.train_labels[torch.from_numpy(examples)]
        return self.loss_of(values.to(device), lengths.to(device) if padded else None, labels.to(device))

    def _loss(self, values: Tensor, lengths: Tensor | None, labels: Tensor) -> Tensor:
        weights = None if self.weights is None else self.weights.to(labels.device)
        smoothing = self.settings.label_smoothing
        losses = [
            torch.nn.functional.cross_entropy(
                logits.float(), labels, weights, reduction="sum", label_smoothing=smoothing
            )
            for logits, _ in self.model.each(values, lengths)
        ]
        return torch.stack(losses).mean() if len(losses) > 1 else losses[0]

    def validate(self, part: int, parts: int) -> Any:
        """The likeliest label of every example of the part, and the summed loss without smoothing."""
        found, loss = [], 0.0
        device = next(self.model.parameters()).device
        for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens):
            values, lengths = self.valid.gather(examples)
            logits = self.model(values.to(device), lengths.to(device))[0].float()
            labels = torch.from_numpy(self.valid_labels[examples]).to(device)
            loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum"))
            found += list(zip(examples.tolist(), logits.argmax(-1).tolist(), strict=True))
        return {"loss": loss, "found": found}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss, accuracy and macro F1."""
        chosen = dict(tuple(pair) for result in results for pair in result["found"])
        rows = sorted(chosen)
        predicted, right = np.array([chosen[row] for row in rows]), self.valid_labels[rows]
        return {
            "loss": sum(result["loss"] for result in results) / max(1, len(rows)),
            "accuracy": accuracy(right, predicted),
            "macro_f1": macro_f1(right, predicted),
        }


def class_weights(labels: Tensor, classes: int, kind: str) -> Tensor | None:
    """N / (K n_k) for each of K classes, so that the mean over the N examples is 1.

    >>> class_weights(torch.tensor([0, 0, 0, 1]), 2, "balanced").tolist()
    [0.6666666865348816, 2.0]
    """
    if kind == "none":
        return None
    counts = torch.bincount(labels, minlength=classes).clamp(min=1)
    return len(labels) / (classes * counts.float())
