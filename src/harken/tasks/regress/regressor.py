"""A trained regressor: the model folder as an object.

model = harken.load("runs/prices")
model.predict(["three rooms and a garden"])   # [312000.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.regressor import RegressorModel
from harken.tasks.context import Context
from harken.tasks.labelled.predictor import LabelledPredictor, open_reader
from harken.tasks.labelled.reading import build_reader
from harken.tasks.predictor import Progress
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.results import Result


@dataclass(frozen=True)
class NumberBatch:
    """Examples and their numbers as `harken.inspection.measures.running` runs a network on them."""

    values: Any  # (B, T) ids, with the layers of a context or without, or (B, T, C) frames
    lengths: Tensor  # (B,)
    targets: Tensor  # (B,)
    direct: bool  # whether the answer depends on every step directly

    def losses(self, network: RegressorModel) -> tuple[Tensor, Tensor]:
        """Squared errors (B, 1) in units of the deviation, and the place of each row's only one (B,): 0."""
        targets = (self.targets - network.mean[0]) / network.deviation[0]
        squares = (network.standard(self.values, self.lengths)[:, :1] - targets[:, None]).square()
        return squares, torch.zeros_like(self.lengths)


@dataclass(frozen=True)
class PredictedNumber(Result):
    """The number of one example."""

    value: float

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"value": self.value}

    def __str__(self) -> str:
        return f"{self.value:.6g}"


class Regressor(LabelledPredictor[RegressRecipe, RegressorModel]):
    """Model and recipe of one folder; load it with `harken.load`."""

    @classmethod
    def open(cls, folder: Path, recipe: RegressRecipe, device: str) -> Self:
        inputs, tokenizer, context = open_reader(folder, recipe, device, "network.reader.inputs.mean")
        return cls(recipe, build_regressor(recipe, inputs, context), tokenizer, folder, context)

    @property
    def network(self) -> ClassifierModel:
        return self.model.network

    def predict(self, examples: Sequence[Any], progress: Progress | None = None) -> np.ndarray:
        """(N,), a number for every text or array (T, C).

        Raises:
            UserError: examples of another kind than the model was trained on.
        """
        values = self.map_rows(self.rows(examples), lambda *inputs: self.model(*inputs)[:, 0].double(), progress)
        return np.array(values, dtype=np.float64)

    def batch(self, examples: Sequence[Any]) -> NumberBatch:
        pairs = [one if isinstance(one, tuple) else (one, None) for one in examples]
        inputs = self.padded([example for example, _ in pairs])
        mean = float(self.model.mean[0])
        targets = torch.tensor([mean if number is None else float(number) for _, number in pairs], device=self.device)
        return NumberBatch(*inputs, targets, direct=self.recipe.regressor.pooling != "last")

    def answer_of(self, example: Any) -> str:
        return f"{self.predict([example])[0]:.6g}"


def build_regressor(recipe: RegressRecipe, inputs: int, context: Context | None = None) -> RegressorModel:
    """A new network for `inputs` ids or channels, with weights drawn from torch's current random state.

    Raises:
        UserError: incompatible options.
    """
    head, reader = recipe.regressor, build_reader(recipe, inputs, context)
    return RegressorModel(ClassifierModel(reader, 1, pooling=head.pooling, score=head.score, dropout=head.dropout))
