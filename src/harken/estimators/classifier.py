"""`harken.SequenceClassifier`: a label for every text or array.

from harken import SequenceClassifier
model = SequenceClassifier(cell="lstm").fit(["good", "bad"] * 20, ["+", "-"] * 20)
model.predict(["good"]), model.predict_proba(["good"])
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d

from harken.estimators.base import WholeSequenceEstimator


class SequenceClassifier(ClassifierMixin, WholeSequenceEstimator):
    """Reads sequences and gives one label each.

    Args:
        cell: lstm, gru, rnn, transformer or convolutional: what reads.
        width: of the states; `layers` of them.
        pooling: last, mean, max or attention: from all states to one vector.
        max_iter: updates; `batch_size` sequences each.
        tokenizer: word, character or bpe, for texts; at most `vocabulary_size` pieces.
    """

    def __init__(
        self,
        cell: str = "lstm",
        width: int = 32,
        layers: int = 1,
        bidirectional: bool = True,
        pooling: str = "attention",
        dropout: float = 0.0,
        max_iter: int = 100,
        batch_size: int = 64,
        learning_rate: float = 0.01,
        tokenizer: str = "word",
        vocabulary_size: int = 5000,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.cell, self.width, self.layers, self.bidirectional = cell, width, layers, bidirectional
        self.pooling, self.dropout = pooling, dropout
        self.max_iter, self.batch_size, self.learning_rate = max_iter, batch_size, learning_rate
        self.tokenizer, self.vocabulary_size = tokenizer, vocabulary_size
        self.device, self.random_state = device, random_state

    def fit(self, X: Any, y: Any) -> SequenceClassifier:
        """Texts or arrays (`harken.estimators.inputs`) and a label for each."""
        self._fit("classify", X, y, {"choose_by": "loss"}, self._class_numbers)
        return self

    def _class_numbers(self, y: Any) -> list[str]:
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        return [str(number) for number in numbers]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, K), columns in the order of `classes_`."""
        return np.asarray(torch.softmax(torch.from_numpy(self._outputs(X)), -1).numpy())

    def predict(self, X: Any) -> np.ndarray:
        """(N,), the likeliest label of each."""
        numbers = self.predict_proba(X).argmax(1)
        labels: np.ndarray = self.classes_[numbers]
        return labels
