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

from harken.data.text.examples import Labelled, LabelledSplits
from harken.estimators.base import SequenceEstimator, outputs, sklearn_errors
from harken.estimators.inputs import read, rows_alike
from harken.tasks.classify.job import JOB
from harken.tasks.labelled.reading import as_rows


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
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
        if y is None:
            raise ValueError("SequenceClassifier requires y to be passed, but the target y is None")
        self.kind_, examples = read(self, X, reset=True, samples=2)
        labels = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"), warn=True)
        check_classification_targets(labels)
        rows_alike(examples, labels)
        self.classes_, places = np.unique(labels, return_inverse=True)
        labelled = Labelled(examples, [str(place) for place in places])
        longest = max(len(example.split()) + 1 if self.kind_ == "text" else len(example) for example in examples)
        sections = {
            "data": {"kind": self.kind_, "train": "memory"},
            "tokenizer": {"kind": self.tokenizer, "size": self.vocabulary_size},
            "classifier": {"pooling": self.pooling, "dropout": self.dropout, "choose_by": "loss"},
        }
        recipe = self._recipe("classify", sections, self.batch_size * longest)
        splits = LabelledSplits("memory", labelled, labelled, {})
        self._train(recipe, lambda recipe, folder: JOB.prepare_examples(recipe, splits, folder))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, K), columns in the order of `classes_`."""
        classifier = self.model
        _, examples = read(self, X, reset=False)
        network = classifier.model
        with sklearn_errors():
            rows = as_rows(examples, classifier.recipe, classifier.tokenizer, classifier.channels)
            logits = outputs(network, rows, classifier.device, lambda values, lengths: network(values, lengths)[0])
        return np.asarray(torch.softmax(torch.from_numpy(logits), -1).numpy())

    def predict(self, X: Any) -> np.ndarray:
        """(N,), the likeliest label of each."""
        places = self.predict_proba(X).argmax(1)
        found: np.ndarray = self.classes_[places]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
