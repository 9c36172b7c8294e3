"""Regression as a task: squared or absolute error in units of the training values' deviation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.models.heads.regressor import RegressorModel
from harken.tasks.labelled.reading import Rows
from harken.tasks.labelled.task import LabelledBatch, LabelledTask
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.sequence_task import Sums


class RegressionTask(LabelledTask[RegressorModel]):
    """See `harken.tasks.sequence_task`; the model's mean and deviation are set from the training values."""

    def __init__(
        self,
        recipe: RegressRecipe,
        model: RegressorModel,
        train: tuple[Rows, np.ndarray],
        valid: tuple[Rows, np.ndarray],
    ) -> None:
        model.fit_values(torch.from_numpy(train[1])[:, None])
        self.absolute = recipe.regressor.loss == "absolute"

        def standard(values: np.ndarray) -> np.ndarray:
            scaled = (values - float(model.mean)) / float(model.deviation)
            return scaled.astype(np.float32)[:, None]  # (N, 1)

        super().__init__(model, recipe.train, (train[0], standard(train[1])), (valid[0], standard(valid[1])))
        self.errors_of = self.compiled(self._errors)

    def _errors(self, model: RegressorModel, values: Any, lengths: Tensor | None, targets: Tensor) -> Tensor:
        """(B, 1)"""
        return model.standard(values, lengths).float() - targets

    def loss(self, model: RegressorModel, batch: LabelledBatch) -> tuple[Tensor, int]:
        return self._sum(self.errors_of(model, *batch)), len(batch.targets)

    def _sum(self, errors: Tensor) -> Tensor:
        return errors.abs().sum() if self.absolute else errors.square().sum()

    def evaluate(self, model: RegressorModel, batch: LabelledBatch) -> Sums:
        errors = self._errors(model, *batch)
        return {"loss": float(self._sum(errors)), "squares": float(errors.square().sum()), "count": len(errors)}

    def metrics(self, sums: Sums) -> dict[str, float]:
        """Mean loss, and the root of the mean square in units of the values."""
        root = math.sqrt(sums["squares"] / sums["count"])
        return {"loss": sums["loss"] / sums["count"], "rmse": root * float(self.model.deviation)}
