"""A trained classifier: the model folder as an object.

model = harken.load("runs/opinions")
model.predict(["the film was not good"])        # ['negative']
model.predict_proba(["the film was not good"])  # (1, 2), in the order of model.classes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from harken.data.text.labelled import cleaned
from harken.data.tokenizers.base import Tokenizer
from harken.errors import UserError
from harken.inspection.figure.values import left_to_right
from harken.metrics.calibration import softmax
from harken.models.build import build_encoder
from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.ngrams import NGrams
from harken.tasks.classify.interface import ClassifyOptions
from harken.tasks.classify.labels import LABELS
from harken.tasks.classify.ngrams import NGRAMS
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.context import Context
from harken.tasks.inspected import InspectedBatch, label_batch
from harken.tasks.labelled.predictor import LabelledPredictor, open_reader
from harken.tasks.labelled.reading import build_reader, stored_shapes
from harken.tasks.predictor import Progress
from harken.tasks.results import Printing, Result
from harken.training.folder import MODEL


@dataclass(frozen=True)
class Classification(Result):
    """The label of one example, and the probability of every class."""

    classes: list[str]
    probabilities: np.ndarray  # (K,)

    @property
    def label(self) -> str:
        """The likeliest class."""
        return self.classes[int(self.probabilities.argmax())]

    def top(self, count: int) -> list[tuple[str, float]]:
        """The likeliest classes with their probabilities, the likeliest first."""
        order = self.probabilities.argsort()[::-1][:count]
        return [(self.classes[index], float(self.probabilities[index])) for index in order]

    def to_json(self, options: ClassifyOptions) -> dict[str, Any]:
        pairs = self.top(options.top) if options.top > 1 else zip(self.classes, self.probabilities, strict=True)
        scores = {label: round(float(value), 6) for label, value in pairs}
        return {"label": self.label, "score": float(self.probabilities.max()), "scores": scores}

    def to_text(self, options: ClassifyOptions, printing: Printing) -> str:
        if options.scores or options.top > 1:
            return "\t".join(f"{label}\t{value:.4f}" for label, value in self.top(options.top))
        return self.label

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": label, "value": value} for label, value in self.top(8)]


class Classifier(LabelledPredictor[ClassifyRecipe, ClassifierModel]):
    """Model, labels and recipe of one folder; load it with `harken.load`."""

    def __init__(
        self,
        recipe: ClassifyRecipe,
        model: ClassifierModel,
        classes: Sequence[str],
        tokenizer: Tokenizer | None = None,
        folder: Path | None = None,
        context: Context | None = None,
        ngrams: NGrams | None = None,
    ) -> None:
        super().__init__(recipe, model, tokenizer, folder, context)
        self.classes, self.ngrams = list(classes), ngrams

    @classmethod
    def open(cls, folder: Path, recipe: ClassifyRecipe, device: str) -> Self:
        labels = LABELS.load(folder, fine=recipe.classifier.fine)
        inputs, tokenizer, context = open_reader(folder, recipe, device, "reader.inputs.mean")
        (scales,) = stored_shapes(folder / MODEL).get("scales", [0])
        model = build_classifier(recipe, inputs, len(labels.names), context, labels.merged, scales=scales)
        ngrams = NGRAMS.load(folder) if recipe.classifier.ngrams == "auto" else None
        return cls(recipe, model, labels.classes, tokenizer, folder, context, ngrams)

    @property
    def network(self) -> ClassifierModel:
        return self.model

    def predict(self, examples: Sequence[Any]) -> list[str]:
        """The likeliest label of every text or array (T, C).

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        return [self.classes[best] for best in self.predict_proba(examples).argmax(1)]

    def predict_proba(self, examples: Sequence[Any], progress: Progress | None = None) -> np.ndarray:
        """The probability of every class (N, K), columns in the order of `classes`.

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        logits = self.calibrate(self.uncalibrated(examples, progress), examples)
        if not np.isfinite(logits).all():
            raise UserError("the model gives values that are NaN or infinite; train it again")
        return softmax(logits)

    def uncalibrated(self, examples: Sequence[Any], progress: Progress | None = None) -> np.ndarray:
        """The logits (N, K) of the network alone, before calibration."""
        rows = self.map_rows(self.rows(examples), lambda *inputs: self.model.uncalibrated(*inputs)[0].float(), progress)
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.classes))

    def calibrate(self, logits: np.ndarray, examples: Sequence[Any]) -> np.ndarray:
        """Logits (N, K) of the network for examples, scaled, and combined with those of the n-grams."""
        if self.model.scales is None:
            return logits
        scales = self.model.scales.double().tolist()
        if self.ngrams is None or not len(logits):
            return scales[0] * logits
        texts = [cleaned(text, self.recipe.data) for text in examples]
        return scales[0] * logits + scales[1] * self.ngrams.logits(texts)

    def batch(self, examples: Sequence[Any]) -> InspectedBatch:
        pairs = [example if isinstance(example, tuple) else (example, None) for example in examples]
        inputs = self.padded([example for example, _ in pairs])
        labels = self.predict_proba([example for example, _ in pairs]).argmax(-1)  # where no label is known
        labels = torch.from_numpy(labels).to(self.device)
        for row, (_, label) in enumerate(pairs):
            if label in self.classes:
                labels[row] = self.classes.index(label)
        return label_batch(inputs, labels, direct=self.recipe.classifier.pooling != "last")

    def answer_of(self, example: Any) -> str:
        return self.predict([example])[0]

    def title_of(self, example: Any) -> str:
        probabilities = self.predict_proba([example])[0]
        return f"{left_to_right(self.classes[int(probabilities.argmax())])} {probabilities.max():.2f}"


def build_classifier(
    recipe: ClassifyRecipe,
    inputs: int,
    labels: int,
    context: Context | None = None,
    merged: Sequence[int] | None = None,
    *,
    scales: int = 0,
) -> ClassifierModel:
    """A new network for `inputs` ids or channels, with weights drawn from torch's current random state.

    `merged` says for each of the `labels` which of fewer it belongs to; `scales` is the number of those of calibration.

    Raises:
        UserError: incompatible options.
    """
    head = recipe.classifier
    return ClassifierModel(
        build_reader(recipe, inputs, context),
        labels,
        pooling=head.pooling,
        score=head.score,
        dropout=head.dropout,
        word_dropout=head.word_dropout,
        noise=head.noise,
        merged=merged,
        others=[build_encoder(recipe.model) for _ in range(head.members - 1)],
        scales=scales,
    )
