"""Forecasting as a task: windows of series in shuffled batches, pinball loss, MASE at the validation part's origins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.series.series import Series
from harken.metrics.forecasting import season_scale
from harken.models.forecasting.model import ForecastNetwork
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.windows import Batch, Cut, Transform, Windows, origins_of
from harken.tasks.sequence_task import SequenceTask, Sums
from harken.training.task import Indices

FLOOR = 0.1  # of a window's deviation, in units of the usual step of the series
AT_ONCE = 256  # windows that are validated together


class ForecastBatch(NamedTuple):
    """Windows, and what their errors are divided by."""

    windows: Batch
    padded: bool  # whether some window is shorter than the others; known before a GPU has to be waited for
    terms: int  # steps that are forecast and known
    steps: Tensor  # (B, 1) the usual step of each window's series, in the units of the network
    scales: np.ndarray  # (B, 1) the scale of MASE, in the units of the series


class ForecastTask(SequenceTask[ForecastNetwork, ForecastBatch]):
    """See `harken.tasks.sequence_task`; all windows have one length."""

    unit = "steps"
    unread = SequenceTask.unread | {"label_smoothing"}
    monitor = "mase"

    def __init__(
        self,
        recipe: ForecastRecipe,
        series: Sequence[Series],
        cuts: Sequence[Cut],
        transform: Transform,
        origins: Sequence[tuple[int, int, int]] | None = None,
    ) -> None:
        data = recipe.data
        self.recipe, self.transform = recipe, transform
        ends = [cut.valid if data.final else cut.train for cut in cuts]
        fitted = [part.rows(0, end) for part, end in zip(series, ends, strict=True)]
        channels = 1 + series[0].past.shape[1] + series[0].known.shape[1]
        model = ForecastNetwork(
            recipe.model, channels=channels, known=series[0].known.shape[1], horizon=data.horizon, season=data.season
        )
        train_cuts = [Cut(end, cut.valid, cut.test) for end, cut in zip(ends, cuts, strict=True)]
        shape = (data.window, model.horizon)
        chosen = origins or origins_of(series, train_cuts, "train", data.shortest, model.horizon)
        self.train = Windows(series, transform, chosen, *shape)
        self.valid = Windows(series, transform, origins or self._valid_origins(series, cuts), data.window, data.horizon)
        # MASE is measured in the units of the series, the loss in those of the network
        self.scales = np.array(
            [season_scale(part.observed[: end.train], data.season) for part, end in zip(series, cuts, strict=True)]
        )
        targets = [transform.apply(part.observed) for part in fitted]
        self.steps = np.array([season_scale(values, 1) for values in targets], dtype=np.float32)
        frames = np.concatenate(
            [np.column_stack([part.target, part.past, part.known])[part.measured] for part in fitted]
        )
        model.fit_inputs(torch.from_numpy(frames.astype(np.float32)), FLOOR * float(np.median(self.steps)))
        lengths = (np.full(len(windows), data.window) for windows in (self.train, self.valid))
        super().__init__(model, recipe.train, *lengths)

    def _valid_origins(self, series: Sequence[Series], cuts: Sequence[Cut]) -> list[tuple[int, int, int]]:
        shortest, horizon = self.recipe.data.shortest, self.recipe.data.horizon
        origins = origins_of(series, cuts, "valid", shortest, horizon)
        if origins:
            return origins
        # Without a validation part the end of the training part stands in, so that there is a number to see.
        ends = [(number, cut.train) for number, cut in enumerate(cuts)]
        return [(number, at, end) for number, end in ends for at in range(max(shortest, end - horizon), end)]

    def epoch(self, number: int) -> Sequence[Indices]:
        """All windows in an order drawn for this epoch, as many a batch as their steps fit into `batch_tokens`."""
        rows = max(1, self.settings.batch_tokens // self.train.window)
        order = np.random.default_rng([self.settings.seed, number]).permutation(len(self.train))
        return np.array_split(order, max(1, math.ceil(len(order) / rows)))

    def size(self, indices: Indices) -> int:
        """Steps that are forecast and known."""
        return int(self.train.steps[indices].sum())

    def collate(self, indices: Indices, valid: bool = False) -> ForecastBatch:
        windows = self.valid if valid else self.train
        batch, owner = windows.batch(indices), windows.owner[indices]
        padded = int(batch.lengths.min()) < batch.past.shape[1]
        terms, steps = int(batch.counted.sum()), torch.from_numpy(self.steps[owner])[:, None]
        return ForecastBatch(batch, padded, terms, steps, self.scales[owner][:, None])

    def loss(self, model: ForecastNetwork, batch: ForecastBatch) -> tuple[Tensor, int]:
        """Pinball, in units of each series' usual step; every member answers for itself."""
        part = batch.windows
        outputs = model.each(part.past, part.lengths if batch.padded else None, part.future)
        return model.loss(outputs, part.truth, part.counted / batch.steps), batch.terms

    def valid_batches(self, part: int, parts: int) -> Sequence[Indices]:
        mine = np.arange(len(self.valid))[part::parts]
        return [mine[start : start + AT_ONCE] for start in range(0, len(mine), AT_ONCE)]

    def evaluate(self, model: ForecastNetwork, batch: ForecastBatch) -> Sums:
        """Absolute errors and pinball losses at rolling origins, each over its series' scale."""
        levels, middle, part = np.array(model.quantiles), model.quantiles.index(0.5), batch.windows
        quantiles = model.unroll(part.past, part.lengths, part.future).float().cpu().numpy()  # (B, T, Q)
        counted = part.counted.cpu().numpy()
        with np.errstate(over="ignore"):
            quantiles = self.transform.undo(quantiles.astype(np.float64))
        miss = self.transform.undo(part.truth.cpu().numpy().astype(np.float64))[..., None] - quantiles
        losses = 2 * np.maximum(levels * miss, (levels - 1) * miss).mean(-1)
        return {
            "error": float((np.abs(miss[..., middle]) * counted / batch.scales).sum()),
            "pinball": float((losses * counted / batch.scales).sum()),
            "count": float(counted.sum()),
        }

    def metrics(self, sums: Sums) -> dict[str, float]:
        """MASE of the median, and the mean pinball loss over the same scale."""
        count = max(sums["count"], 1.0)
        return {"mase": sums["error"] / count, "pinball": sums["pinball"] / count}
