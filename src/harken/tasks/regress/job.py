"""Regression: from a recipe to a run (squared or absolute error in units of the training values' deviation), from a
folder to a `Regressor`, and how good it is on examples.

model = harken.load("runs/prices")
model.predict(["three rooms and a garden"])   # [312000.0]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from harken.data.text.examples import Labelled, LabelledSplits
from harken.errors import UserError
from harken.metrics.baselines import fit_number_baseline
from harken.metrics.interval import bootstrap, resampled
from harken.models.heads.classifier import ClassifierModel
from harken.models.heads.regressor import RegressorModel
from harken.tasks.baselines import COUNT, Baseline
from harken.tasks.context import Context
from harken.tasks.interface import Options
from harken.tasks.labelled.job import LabelledJob
from harken.tasks.labelled.predictor import LabelledPredictor, open_reader
from harken.tasks.labelled.reading import LabelledBatch, LabelledTask, Rows, build_reader
from harken.tasks.predictor import Progress
from harken.tasks.regress.interface import INTERFACE
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.results import Result
from harken.tasks.scores import Metric, Scores
from harken.tasks.sequence_task import Sums


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
        pairs = [example if isinstance(example, tuple) else (example, None) for example in examples]
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


class RegressionTask(LabelledTask[RegressorModel]):
    """See `harken.tasks.sequence_task`; the model's mean and deviation are set from the training values."""

    unread = LabelledTask.unread | {"label_smoothing"}

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


class RegressJob(LabelledJob):
    """See `harken.tasks.labelled.job`."""

    predictor = Regressor
    interface = INTERFACE
    paired_metric = None
    estimator = "harken.estimators.regressor:SequenceRegressor"

    def learn(self, recipe: RegressRecipe, train: Labelled, folder: Path, resuming: bool) -> np.ndarray:
        return numbers(train.labels)

    def build(self, recipe: RegressRecipe, inputs: int, targets: np.ndarray, context: Context | None) -> RegressorModel:
        return build_regressor(recipe, inputs, context)

    def network(self, model: RegressorModel) -> ClassifierModel:
        return model.network

    def task(
        self,
        recipe: RegressRecipe,
        model: RegressorModel,
        targets: np.ndarray,
        rows: tuple[Rows, Rows],
        splits: LabelledSplits,
        folder: Path,
        resuming: bool,
    ) -> RegressionTask:
        return RegressionTask(recipe, model, (rows[0], targets), (rows[1], numbers(splits.valid.labels)))

    def describe(self, recipe: RegressRecipe, targets: np.ndarray, train: Labelled) -> tuple[str, str, dict[str, str]]:
        between = f"{targets.min():g} to {targets.max():g}, mean {targets.mean():g}"
        return f"{recipe.model.title}, {recipe.regressor.pooling} pooling", "", {"values": between}

    def score(self, model: Regressor, examples: Labelled, progress: Progress) -> Scores:
        return score(model.predict(examples.values, progress), numbers(examples.labels))

    def baseline(self, recipe: RegressRecipe, train: Labelled, parts: Mapping[str, Labelled]) -> Baseline:
        fitted, count = fit_number_baseline(train.values, numbers(train.labels), recipe.train.seed)
        scores = {}
        for name, part in parts.items():
            errors = fitted.predict(part.values) - numbers(part.labels)
            scores[name] = {"rmse": float(np.sqrt((errors**2).mean())) if len(errors) else 0.0, COUNT: len(errors)}
        return Baseline(fitted.name, "rmse", scores, count, sampled=count < len(train), mode="min")

    def predict(
        self, model: Regressor, examples: Sequence[Any], options: Options, progress: Progress
    ) -> list[PredictedNumber]:
        return [PredictedNumber(float(value)) for value in model.predict(examples, progress)]

    def examples(self, model: Regressor, split: str, files: Sequence[Path] = ()) -> list[Any]:
        labelled = self.held_out(model, split, files)
        return list(zip(labelled.values, numbers(labelled.labels), strict=True))


JOB = RegressJob()


def numbers(labels: Sequence[str | float]) -> np.ndarray:
    """Labels as numbers.

    Raises:
        UserError: the first that is none.
    """
    values = np.zeros(len(labels))
    for row, label in enumerate(labels):
        try:
            values[row] = float(label)
        except (TypeError, ValueError):
            values[row] = math.nan
        if not math.isfinite(values[row]):
            raise UserError(
                f"label {row + 1} is {label!r}, which is no number; check data.label_column, or classify instead"
            )
    return values


def score(predicted: np.ndarray, expected: np.ndarray) -> Scores:
    """R², mean absolute error and root mean square."""
    squares, spread = (predicted - expected) ** 2, (expected - expected.mean()) ** 2
    explained = resampled(len(predicted), lambda rows: float(1 - squares[rows].sum() / max(spread[rows].sum(), 1e-12)))
    root = resampled(len(predicted), lambda rows: float(np.sqrt(squares[rows].mean())))
    return Scores(
        len(predicted),
        "examples",
        [
            Metric.of("R2", explained, "1 is perfect, 0 is as good as the mean"),
            Metric.of("MAE", bootstrap(np.abs(predicted - expected))),
            Metric.of("RMSE", root),
        ],
        outputs=(predicted.tolist(), expected.tolist()),
    )
