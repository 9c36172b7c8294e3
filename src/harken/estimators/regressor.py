"""`harken.SequenceRegressor`: a number for every text or array.

from harken import SequenceRegressor
model = SequenceRegressor(cell="gru").fit(arrays, values)
model.predict(arrays), model.score(arrays, values)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, column_or_1d

from harken.estimators.base import WholeSequenceEstimator


@dataclass(eq=False, repr=False)
class SequenceRegressor(RegressorMixin, WholeSequenceEstimator):
    """Reads sequences and gives one number each; the arguments are explained in `WholeSequenceEstimator`, and `loss` is
    squared or absolute."""

    cell: str = "gru"
    width: int = 32
    layers: int = 1
    bidirectional: bool = False
    pooling: str = "last"
    dropout: float = 0.0
    loss: str = "squared"
    max_iter: int = 120
    batch_size: int = 64
    learning_rate: float = 0.01
    tokenizer: str = "word"
    vocabulary_size: int = 5000
    device: str = "cpu"
    random_state: Any = None

    task, section = "regress", "regressor"

    def _targets(self, y: Any) -> list[float]:
        return list(column_or_1d(check_array(y, ensure_2d=False, dtype=np.float64, input_name="y"), warn=True))

    def _section_keys(self) -> dict[str, Any]:
        return {"loss": self.loss}

    def predict(self, X: Any) -> np.ndarray:
        """(N,)."""
        return self._outputs(X)[:, 0]
