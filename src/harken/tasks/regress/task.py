"""Regression as a task: examples of like length in batches, squared or absolute error in units of the deviation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.models.heads.regressor import RegressorModel
from harken.tasks.by_length import ByLength, rows_of_part
from harken.tasks.classify.reading import Rows
from harken.tasks.regress.recipe import RegressRecipe
from harken.training.task import Indices


class RegressionTask(ByLength):
    """See `harken.training.task.Task`."""

    monitor = "loss"
    mode = "min"

    def __init__(
        self,
        recipe: RegressRecipe,
        model: RegressorModel,
        train: Rows,
        train_values: np.ndarray,
        valid: Rows,
        valid_values: np.ndarray,
    ) -> None:
        self.recipe, self.settings, self.model = recipe, recipe.train, model
        self.train, self.valid, self.lengths = train, valid, train.lengths
        model.fit_values(torch.from_numpy(train_values)[:, None])
        center, spread = float(model.mean), float(model.deviation)
        self.train_values = torch.from_numpy((train_values - center) / spread).float()[:, None]
        self.valid_values = torch.from_numpy((valid_values - center) / spread).float()[:, None]

    def size(self, examples: Indices) -> int:
        """Values."""
        return len(examples)

    def loss(self, examples: Indices) -> Tensor:
        """Summed over the examples."""
        values, lengths = self.train.gather(examples)
        padded = int(lengths.min()) < values.shape[1]
        device = next(self.model.parameters()).device
        found = self.model.standard(values.to(device), lengths.to(device) if padded else None)
        return self._error(found, self.train_values[torch.from_numpy(examples)].to(device))

    def _error(self, found: Tensor, wanted: Tensor) -> Tensor:
        miss = found.float() - wanted
        return miss.abs().sum() if self.recipe.regressor.loss == "absolute" else miss.square().sum()

    def validate(self, part: int, parts: int) -> Any:
        """Errors of the examples of the part."""
        loss = squares = count = 0.0
        device = next(self.model.parameters()).device
        for examples in rows_of_part(self.valid.lengths, part, parts, self.settings.batch_tokens):
            values, lengths = self.valid.gather(examples)
            found = self.model.standard(values.to(device), lengths.to(device))
            wanted = self.valid_values[torch.from_numpy(examples)].to(device)
            loss += float(self._error(found, wanted))
            squares += float((found.float() - wanted).square().sum())
            count += len(examples)
        return {"loss": loss, "squares": squares, "count": count}

    def score(self, results: list[Any]) -> dict[str, float]:
        """Mean loss, and the root of the mean square in units of the values."""
        count = max(sum(result["count"] for result in results), 1)
        loss, squares = (sum(result[name] for result in results) / count for name in ("loss", "squares"))
        return {"loss": loss, "rmse": float(np.sqrt(squares)) * float(self.model.deviation)}
