"""From a recipe for regression to a run, and from a folder to a `Regressor`; how good it is on examples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
from harken.tasks.labelled.reading import Rows
from harken.tasks.predictor import Progress
from harken.tasks.regress.interface import INTERFACE
from harken.tasks.regress.recipe import RegressRecipe
from harken.tasks.regress.regressor import PredictedNumber, Regressor, build_regressor
from harken.tasks.regress.task import RegressionTask
from harken.tasks.scores import Metric, Scores


class RegressJob(LabelledJob):
    """See `harken.tasks.labelled.job`."""

    predictor = Regressor
    interface = INTERFACE

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

    def examples(self, model: Regressor, split: str) -> list[Any]:
        labelled = self.held_out(model, split)
        return list(zip(labelled.values, numbers(labelled.labels), strict=True))


JOB = RegressJob()


def numbers(labels: Sequence[str | float]) -> np.ndarray:
    """Labels as numbers.

    Raises:
        UserError: the first that is none.
    """
    values = np.zeros(len(labels))
    for place, label in enumerate(labels):
        try:
            values[place] = float(label)
        except (TypeError, ValueError):
            values[place] = math.nan
        if not math.isfinite(values[place]):
            raise UserError(
                f"label {place + 1} is {label!r}, which is no number; check data.label_column, or classify instead"
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
