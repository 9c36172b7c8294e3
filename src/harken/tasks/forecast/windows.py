"""Series cut by time, and windows out of them: the past up to an origin, and the steps that come.

    |---------------- train ----------------|--- valid ---|--- test ---|
            [ window ) origin [ horizon )

An origin o knows rows before o and forecasts o, o + 1, ... Training origins lie in the training part, and steps beyond
its end count nothing; so do those of the other parts, whose pasts reach back into the part before. Nothing is shuffled
over time. Values that were filled in are read but count nothing, and no origin follows one: a filled value may depend
on what comes after the gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harken.data.io.files import require_file
from harken.data.series.series import Series, read_series
from harken.data.splits import digest
from harken.data.synthetic.seasons import make_seasons
from harken.errors import UserError
from harken.tasks.forecast.recipe import ForecastDataConfig
from harken.tasks.splits import find_split

PARTS = ("train", "valid", "test")


class Batch(NamedTuple):
    """Windows, right-padded, in the units the network sees."""

    past: Tensor  # (B, S, C): target, measured covariates, known covariates
    lengths: Tensor  # (B,)
    future: Tensor  # (B, T, F) known covariates of the coming steps
    truth: Tensor  # (B, T)
    counted: Tensor  # (B, T) 1 where a step lies in the part and was measured


@dataclass(frozen=True)
class Cut:
    """The rows at which the parts of one series end."""

    train: int
    valid: int
    test: int

    def span(self, part: str) -> tuple[int, int]:
        """First and last + 1 row of a part."""
        ends = (0, self.train, self.valid, self.test)
        number = PARTS.index(part)
        return ends[number], ends[number + 1]


@dataclass(frozen=True)
class CutSeries:
    """Series, and where the parts of each end."""

    series: Sequence[Series]
    cuts: Sequence[Cut]

    def digests(self) -> dict[str, str]:
        """Rows and digest of every part (`harken.data.splits`)."""
        digests = {}
        for part in PARTS:
            pieces = [part_series.rows(*at.span(part)) for part_series, at in zip(self.series, self.cuts, strict=True)]
            digests[part] = f"{sum(map(len, pieces))}:{digest(piece.content for piece in pieces).partition(':')[2]}"
        return digests


def load_series(config: ForecastDataConfig) -> list[Series]:
    """The series that `[data]` names.

    Raises:
        UserError: a file that cannot be read.
    """
    if config.corpus:
        all_series = make_seasons(config.series, config.size, config.seed)
    else:
        all_series = read_series(require_file(config.train or ""), config.layout)
    return [series.rows(0, config.rows or len(series)) for series in all_series]


def name_of(config: ForecastDataConfig) -> str:
    """The name of the data."""
    return config.name or config.corpus or Path(config.train or "series").name


def find_part(config: ForecastDataConfig, split: str | None) -> str:
    """The part that is asked for, "test" where None; raises UserError where there is no such part."""
    return find_split(name_of(config), PARTS, split)


def cut(series: Series, config: ForecastDataConfig) -> Cut:
    """Cut a series by time: the test part at the end, the validation part before it.

    Raises:
        UserError: too little is left to train on.
    """
    rows = len(series)

    def count(share: float) -> int:
        return share if isinstance(share, int) else round(rows * share)

    valid = rows - count(config.test_size)
    train = valid - count(config.valid_size)
    if train < config.shortest + 2:
        raise UserError(
            f"the series {series.name} has {rows} rows, of which {max(train, 0)} are left to train on, but at least "
            f"{config.shortest + 2} are needed; give more rows, or lower data.valid_size, data.test_size or "
            "data.shortest"
        )
    return Cut(train, valid, rows)


class Transform:
    """The transform between the series and the network: none, or the logarithm."""

    def __init__(self, log: bool) -> None:
        self.log = log

    @classmethod
    def choose(cls, series: Sequence[Series], kind: str) -> Transform:
        """Choose the transform that the recipe names; `auto` looks at the training parts that are given.

        Raises:
            UserError: a logarithm of what has none.
        """
        refused = [part.name for part in series if (part.observed <= 0).any()]  # in the training parts
        if kind == "log" and refused:
            raise UserError(f'data.transform is "log", but {refused[0]} has values of 0 or below; set it to "none"')
        return cls(not refused if kind == "auto" else kind == "log")

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Transform values for the network; a UserError where there is no logarithm."""
        if self.log and (values <= 0).any():
            raise UserError(
                "the model works with logarithms of its series, but there are values of 0 or below; fix them, or "
                "train without: --set data.transform=none"
            )
        return np.log(values) if self.log else values

    def undo(self, values: np.ndarray) -> np.ndarray:
        """Back to the units of the series."""
        return np.exp(values) if self.log else values


class Windows:
    """Windows of some origins of some series, gathered by number."""

    def __init__(
        self,
        series: Sequence[Series],
        transform: Transform,
        origins: Sequence[tuple[int, int, int]],
        window: int,
        horizon: int,
    ) -> None:
        """
        Args:
            origins: (number of the series, origin, end of its part), each a window.
        """
        self.window, self.horizon = window, horizon
        frames = [np.column_stack([transform.apply(part.target), part.past, part.known]) for part in series]
        self.known = series[0].known.shape[1]
        self.begins = np.concatenate([[0], np.cumsum([len(part) for part in series])])
        self.frames = torch.from_numpy(np.concatenate(frames).astype(np.float32))  # (rows of all series, C)
        self.measured = np.concatenate([part.measured for part in series])  # (rows of all series,)
        self.owner, self.origin, self.end = np.array(origins, dtype=np.int64).reshape(-1, 3).T
        counts = np.concatenate([[0], np.cumsum(self.measured)])
        begin = self.begins[self.owner]
        self.steps = (
            counts[begin + np.minimum(self.origin + horizon, self.end)] - counts[begin + self.origin]
        )  # counted

    def __len__(self) -> int:
        return len(self.owner)

    def batch(self, numbers: np.ndarray) -> Batch:
        """The windows of these numbers, on the CPU."""
        begin, origin = self.begins[self.owner[numbers]], self.origin[numbers]
        start = np.maximum(origin - self.window, 0)
        lengths = origin - start
        indices = begin[:, None] + start[:, None] + np.arange(self.window)
        real = np.arange(self.window) < lengths[:, None]
        past = self.frames[torch.from_numpy(np.where(real, indices, 0))]  # (B, S, C)
        past = torch.where(torch.from_numpy(real)[..., None], past, 0.0)
        steps = origin[:, None] + np.arange(self.horizon)
        last = self.begins[self.owner[numbers] + 1] - 1
        rows = np.minimum(begin[:, None] + steps, last[:, None])
        counted = (steps < self.end[numbers][:, None]) & self.measured[rows]
        coming = self.frames[torch.from_numpy(rows)]  # (B, T, C)
        return Batch(
            past,
            torch.from_numpy(lengths),
            coming[..., coming.shape[2] - self.known :],
            coming[..., 0],
            torch.from_numpy(counted.astype(np.float32)),
        )


def origins_of(
    series: Sequence[Series], cuts: Sequence[Cut], part: str, shortest: int, horizon: int
) -> list[tuple[int, int, int]]:
    """Every origin of a part: `shortest` rows before it, the last of them measured, and a measured row to forecast."""
    origins = []
    for number, (values, bounds) in enumerate(zip(series, cuts, strict=True)):
        (first, end), measured = bounds.span(part), values.measured
        origins += [
            (number, origin, end)
            for origin in range(max(first, shortest), end)
            if (origin == 0 or measured[origin - 1]) and measured[origin : min(origin + horizon, end)].any()
        ]
    return origins
