"""`harken.SequenceRegressor`: a number for every text or array.

from harken import SequenceRegressor
model = SequenceRegressor(cell="gru").fit(arrays, values)
model.predict(arrays), model.score(arrays, values)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d

from harken.data.text.examples import Labelled, LabelledSplits
from harken.estimators.base import SequenceEstimator, outputs, sklearn_errors
from harken.estimators.inputs import read, rows_alike
from harken.tasks.regress.job import JOB


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Reads sequences and gives one number each.

    Args:
        cell: lstm, gru, rnn, transformer or convolutional: what reads.
        width: of the states; `layers` of them.
        pooling: last, mean, max or attention: from all states to one vector.
        max_iter: updates; `batch_size` sequences each.
        tokenizer: word, character or bpe, for texts; at most `vocabulary_size` pieces.
    """

    def __init__(
        self,
        cell: str = "gru",
        width: int = 32,
        layers: int = 1,
        bidirectional: bool = False,
        pooling: str = "last",
        dropout: float = 0.0,
        loss: str = "squared",
        max_iter: int = 120,
        batch_size: int = 64,
        learning_rate: float = 0.01,
        tokenizer: str = "word",
        vocabulary_size: int = 5000,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.cell, self.width, self.layers, self.bidirectional = cell, width, layers, bidirectional
        self.pooling, self.dropout, self.loss = pooling, dropout, loss
        self.max_iter, self.batch_size, self.learning_rate = max_iter, batch_size, learning_rate
        self.tokenizer, self.vocabulary_size = tokenizer, vocabulary_size
        self.device, self.random_state = device, random_state

    def fit(self, X: Any, y: Any) -> SequenceRegressor:
        """Texts or arrays (`harken.estimators.inputs`) and a number for each."""
        if y is None:
            raise ValueError("SequenceRegressor requires y to be passed, but the target y is None")
        self.kind_, examples = read(self, X, reset=True, samples=2)
        values = column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)
        rows_alike(examples, values)
        labelled = Labelled(examples, list(values))
        longest = max(len(example.split()) + 1 if self.kind_ == "text" else len(example) for example in examples)
        sections = {
            "data": {"kind": self.kind_, "train": "memory"},
            "tokenizer": {"kind": self.tokenizer, "size": self.vocabulary_size},
            "regressor": {"pooling": self.pooling, "dropout": self.dropout, "loss": self.loss},
        }
        recipe = self._recipe("regress", sections, self.batch_size * longest)
        splits = LabelledSplits("memory", labelled, labelled, {})
        self._train(recipe, lambda recipe, folder: JOB.prepare_examples(recipe, splits, folder))
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,)."""
        regressor = self.model
        _, examples = read(self, X, reset=False)
        network = regressor.model
        with sklearn_errors():
            return outputs(network, regressor.rows(examples), regressor.device, network)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.string = True
        return tags
