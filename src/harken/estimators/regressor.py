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

from harken.estimators.base import WholeSequenceEstimator


class SequenceRegressor(RegressorMixin, WholeSequenceEstimator):
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

        def numbers(y: Any) -> np.ndarray:
            return column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True)

        self._fit("regress", X, y, {"loss": self.loss}, numbers)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """(N,)."""
        return self._outputs(X)[:, 0]
