"""Forecasting as a task: windows of series in shuffled batches, pinball loss, MASE at the validation part's origins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harken.data.series.series import Series
from harken.metrics.forecasting import season_scale
from harken.models.forecasting.model import ForecastNetwork
from harken.tasks.forecast.recipe import ForecastRecipe
from harken.tasks.forecast.windows import Cut, Transform, Windows, origins_of
from harken.training.task import Indices

FLOOR = 0.1  # of a window's deviation, in units of the usual step of the series
AT_ONCE = 256  # windows that are validated together


class ForecastTask:
    """See `harken.training.task.Task`."""

    monitor = "mase"
    mode = "min"

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
        ends = [one.valid if data.final else one.train for one in cuts]
        fitted = [one.rows(0, end) for one, end in zip(series, ends, strict=True)]
        channels = 1 + series[0].past.shape[1] + series[0].known.shape[1]
        self.model = ForecastNetwork(
            recipe.model,
            channels=channels,
            known=series[0].known.shape[1],
            horizon=data.horizon,
            season=data.season,
        )
        train_cuts = [Cut(end, one.valid, one.test) for end, one in zip(ends, cuts, strict=True)]
        shape = (data.window, self.model.horizon)
        chosen = origins or origins_of(train_cuts, "train", data.shortest)
        self.train = Windows(series, transform, chosen, *shape)
        self.valid = Windows(series, transform, origins or self._valid_origins(cuts), data.window, data.horizon)
        # MASE is measured in the units of the series, the loss in those of the network
        self.scales = np.array(
            [season_scale(one.target[: end.train], data.season) for one, end in zip(series, cuts, strict=True)]
        )
        seen = [transform.apply(one.target) for one in fitted]
        self.steps = np.array([season_scale(values, 1) for values in seen], dtype=np.float32)
        frames = np.concatenate([np.column_stack([one.target, one.past, one.known]) for one in fitted])
        self.model.fit_inputs(torch.from_numpy(frames.astype(np.float32)), FLOOR * float(np.median(self.steps)))

    def _valid_origins(self, cuts: Sequence[Cut]) -> list[tuple[int, int, int]]:
        shortest = self.recipe.data.shortest
        found = origins_of(cuts, "valid", shortest)
        if found:
            return found
        # Without a validation part the end of the training part stands in, so that there is a number to see.
        ends = [(number, one.train) for number, one in enumerate(cuts)]
        horizon = self.recipe.data.horizon
        return [(number, at, end) for number, end in ends for at in range(max(shortest, end - horizon), end)]

    def epoch(self, number: int) -> Sequence[Indices]:
        """All windows in an order drawn for this epoch, as many a batch as their steps fit into `batch_tokens`."""
        train = self.recipe.train
        rows = max(1, train.batch_tokens // self.train.window)
        order = np.random.default_rng([train.seed, number]).permutation(len(self.train))
        return np.array_split(order, max(1, math.ceil(len(order) / rows)))

    def size(self, examples: Indices) -> int:
        """Steps that are forecast and known."""
        steps = np.minimum(self.train.end[examples] - self.train.origin[examples], self.train.horizon)
        return int(steps.sum())

    def share(self, examples: Indices, parts: int) -> list[Indices]:
        """Windows are alike: deal them out."""
        return [examples[part::parts] for part in range(parts)]

    def loss(self, examples: Indices) -> Tensor:
        """Pinball, in units of each series' usual step; every member answers for itself."""
        batch = self.train.batch(examples, self._device)
        lengths = batch.lengths if int(batch.lengths.min()) < batch.past.shape[1] else None
        found = self.model.each(batch.past, lengths, batch.future)
        usual = torch.from_numpy(self.steps[self.train.owner[examples]]).to(self._device)[:, None]
        return self.model.loss(found, batch.truth, batch.counted / usual)

    @property
    def _device(self) -> torch.device:
        return next(self.model.parameters()).device

    def validate(self, part: int, parts: int) -> Any:
        """Rolling origins: absolute errors and pinball losses, each over its series' scale."""
        mine = np.arange(len(self.valid))[part::parts]
        error = pinball = count = 0.0
        levels, middle = np.array(self.model.quantiles), self.model.quantiles.index(0.5)
        for start in range(0, len(mine), AT_ONCE):
            numbers = mine[start : start + AT_ONCE]
            batch = self.valid.batch(numbers, self._device)
            found = self.model.unroll(batch.past, batch.lengths, batch.future).float().cpu().numpy()
            counted = batch.counted.cpu().numpy()
            with np.errstate(over="ignore"):
                found = self.transform.undo(found.astype(np.float64))
            miss = self.transform.undo(batch.truth.cpu().numpy().astype(np.float64))[..., None] - found
            scale = self.scales[self.valid.owner[numbers]][:, None]
            error += float((np.abs(miss[..., middle]) * counted / scale).sum())
            losses = 2 * np.maximum(levels * miss, (levels - 1) * miss).mean(-1)
            pinball += float((losses * counted / scale).sum())
            count += float(counted.sum())
        return {"error": error, "pinball": pinball, "count": count}

    def score(self, results: list[Any]) -> dict[str, float]:
        """MASE of the median, and the mean pinball loss over the same scale."""
        count = max(sum(result["count"] for result in results), 1.0)
        error, pinball = (sum(result[name] for result in results) / count for name in ("error", "pinball"))
        return {"mase": error, "pinball": pinball}
