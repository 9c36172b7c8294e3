"""`harken.SequenceClassifier`: a label for every text or array.

from harken import SequenceClassifier
model = SequenceClassifier(cell="lstm").fit(["good", "bad"] * 20, ["+", "-"] * 20)
model.predict(["good"]), model.predict_proba(["good"])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from harken.data.text.examples import Labelled, LabelledSplits, split_off
from harken.estimators.base import WholeSequenceEstimator, sklearn_errors
from harken.tasks.classify.job import with_all_classes


@dataclass(eq=False, repr=False)
class SequenceClassifier(ClassifierMixin, WholeSequenceEstimator):
    """Reads sequences and gives one label each; the arguments are explained in `WholeSequenceEstimator`.

    With a `validation_fraction`, this share of the examples is held out to fit the temperature of the probabilities.
    """

    cell: str = "lstm"
    width: int = 32
    layers: int = 1
    bidirectional: bool = True
    pooling: str = "attention"
    dropout: float = 0.0
    max_iter: int = 100
    batch_size: int = 64
    learning_rate: float = 0.01
    tokenizer: str = "word"
    vocabulary_size: int = 5000
    validation_fraction: float = 0.0
    device: str = "cpu"
    random_state: Any = None

    task, section = "classify", "classifier"

    def _targets(self, y: Any) -> list[str]:
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        return [str(number) for number in numbers]

    def _section_keys(self) -> dict[str, Any]:
        share = self.validation_fraction
        if not isinstance(share, int | float | np.number) or not 0 <= share < 1:
            raise ValueError(self._wrong("validation_fraction", "a number in the range [0, 1)", share))
        return {"choose_by": "loss", "calibrate": share > 0}

    def _splits(self, examples: Labelled, seed: int) -> LabelledSplits:
        if not self.validation_fraction:
            return super()._splits(examples, seed)
        with sklearn_errors():
            parts = split_off(examples, {"valid": float(self.validation_fraction)}, seed)
            splits = LabelledSplits("memory", parts["train"], parts["valid"], {})
            return with_all_classes(splits, ["valid"])

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, K), columns in the order of `classes_`."""
        return np.asarray(torch.softmax(torch.from_numpy(self._outputs(X)), -1).numpy())

    def predict(self, X: Any) -> np.ndarray:
        """(N,), the likeliest label of each."""
        numbers = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[numbers]
        return labels
