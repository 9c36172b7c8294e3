"""What training a recipe would take: its files, its parameters, its memory and its time, without training.

>>> found = check("phrasebook-transformer", ["train.max_steps=100"])
>>> found.memory_bytes > 4 * found.parameters
True
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import expand_user
from harken.models.sizing import Size
from harken.recipe import Recipe, as_recipe
from harken.tasks.registry import estimate

EFFICIENCY = 0.25  # share of a matrix product's speed that training reaches (dropout, norms, optimizer ...)


@dataclass(frozen=True)
class Check:
    """What `harken check` reports. Sizes are upper bounds where a vocabulary may have fewer tokens."""

    recipe: Recipe
    corpus: str  # a description of the training data
    size: Size
    memory_bytes: int
    tokens_per_epoch: int | None  # terms of the loss in one epoch
    seconds: float | None  # of training, on this machine's CPU
    notes: list[str]

    @property
    def parameters(self) -> int:
        """All trained parameters."""
        return self.size.total

    def __repr__(self) -> str:
        time = "" if self.seconds is None else f", about {max(1, round(self.seconds / 60)):,} minutes"
        notes = f", {len(self.notes)} note{'s' * (len(self.notes) != 1)}" if self.notes else ""
        size = f"{self.parameters:,} parameters, {self.memory_bytes / 2**20:,.0f} MB"
        return f"Check({self.recipe.task}, {self.corpus}; {size}{time}{notes})"

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "corpus": self.corpus,
            "parameters": self.parameters,
            "parts": self.size.parameters,
            "memory_bytes": self.memory_bytes,
            "flops_per_target_token": self.size.flops_per_target_token,
            "tokens_per_epoch": self.tokens_per_epoch,
            "seconds": self.seconds,
            "notes": self.notes,
        }


def check(recipe: str | Path | Recipe, overrides: Sequence[str] = ()) -> Check:
    """Validate keys, paths and shapes, and estimate the run.

    Raises:
        UserError: the error that `harken train` would raise.
    """
    chosen = as_recipe(recipe, overrides)
    _require_vectors(chosen)
    found = estimate(chosen)
    train, size, notes = chosen.train, found.size, list(found.notes)
    seconds = _seconds(chosen, size, found.tokens_per_epoch_estimate)
    if train.device.startswith("cuda") and not _has_gpu():
        notes.append(f"train.device is {train.device}, but this machine shows no NVIDIA GPU")
    elif train.device == "auto" and _has_gpu():
        notes.append("this machine has a GPU, which will be used; the time is for the CPU, so expect less")
    if train.max_minutes is not None and seconds is not None and seconds >= 60 * train.max_minutes:
        notes.append(f"the run ends after train.max_minutes {train.max_minutes:g}")
    memory = size.training_bytes(train.batch_tokens, averaged=train.average > 0)
    return Check(chosen, found.corpus, size, memory, found.tokens_per_epoch_estimate, seconds, notes)


def _require_vectors(recipe: Any) -> None:
    """Check the paths of `[embeddings]`.

    Raises:
        UserError: the first that does not exist.
    """
    for key, place in getattr(recipe, "embeddings", ()):
        if isinstance(place, str) and place != "own" and not expand_user(place).exists():
            raise UserError(f"embeddings.{key} is {place}, which does not exist; check the path")


def _seconds(recipe: Recipe, size: Size, tokens_per_epoch: int | None) -> float | None:
    """Training time on this CPU until the first budget ends; None without an estimate."""
    train = recipe.train
    budgets = [] if train.max_minutes is None else [60 * train.max_minutes]
    speed = EFFICIENCY * _matrix_speed() / size.flops_per_target_token  # target tokens per second
    if train.max_steps is not None:
        budgets.append(train.max_steps * train.batch_tokens * train.accumulate / speed)
    if train.max_epochs is not None and tokens_per_epoch is not None:
        budgets.append(train.max_epochs * tokens_per_epoch / speed)
    return min(budgets, default=None)


def _matrix_speed() -> float:
    """FLOP/s of a matrix product on this machine."""
    import numpy as np

    width = 512
    matrix = np.ones((width, width), np.float32)
    best = float("inf")
    for _ in range(4):  # the first is warm-up
        start = time.perf_counter()
        matrix @ matrix
        best = min(best, time.perf_counter() - start)
    return 2 * width**3 / best


def _has_gpu() -> bool:
    return Path("/dev/nvidia0").exists()
