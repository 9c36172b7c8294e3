"""The cost of training a recipe: its data read, its model built, a few updates measured, nothing trained.

>>> checked = check("phrasebook-transformer", ["train.max_steps=100", "data.size=500"], measure=False)
>>> checked.parameters == sum(checked.parts.values())
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.recipe import Recipe, as_recipe, require_paths

if TYPE_CHECKING:
    from harken.plan import Plan
    from harken.training.config import Decision, TrainConfig
    from harken.training.planning.measuring import Speed

FEW_UPDATES, FEW_EXAMPLES = 50, 50  # with fewer, hardly any model learns


@dataclass(frozen=True)
class Check:
    """The report of `harken check`. What depends on measured updates is None where none were run."""

    recipe: Recipe  # with everything decided that was left to harken
    corpus: str  # a description of the data, with exact counts
    facts: dict[str, str]  # vocabulary, labels and their counts ...
    parts: dict[str, int]  # parameters by part of the model
    flops_per_target_token: int
    tokens_per_epoch: int  # targets in one epoch: tokens, labels or steps
    updates_per_epoch: float
    updates: int | None  # of the whole run
    seconds: float | None  # of the whole run on this machine, validations included
    memory_bytes: int | None  # at the peak
    speed: Speed | None
    notes: list[str]
    decisions: tuple[Decision, ...] = ()  # what the recipe leaves open, each value with its reason

    @property
    def parameters(self) -> int:
        """All trained parameters."""
        return sum(self.parts.values())

    @property
    def epochs(self) -> float | None:
        """How often the run sees its data."""
        return None if self.updates is None else self.updates / self.updates_per_epoch

    def __repr__(self) -> str:
        time = "" if self.seconds is None else f", about {max(1, round(self.seconds / 60)):,} minutes"
        notes = f", {len(self.notes)} note{'s' * (len(self.notes) != 1)}" if self.notes else ""
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**20:,.0f} MB"
        size = f"{self.parameters:,} parameters{memory}"
        return f"Check({self.recipe.task}, {self.corpus}; {size}{time}{notes})"

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "corpus": self.corpus,
            "facts": self.facts,
            "parameters": self.parameters,
            "parts": self.parts,
            "memory_bytes": self.memory_bytes,
            "flops_per_target_token": self.flops_per_target_token,
            "tokens_per_epoch": self.tokens_per_epoch,
            "updates_per_epoch": self.updates_per_epoch,
            "updates": self.updates,
            "epochs": self.epochs,
            "seconds": self.seconds,
            "seconds_per_update": None if self.speed is None else self.speed.seconds_per_update,
            "seconds_per_validation": None if self.speed is None else self.speed.seconds_per_validation,
            "seconds_per_checkpoint": None if self.speed is None else self.speed.seconds_per_checkpoint,
            "seconds_to_start": None if self.speed is None else self.speed.seconds_to_start,
            "plan": {decision.key: {"value": decision.value, "reason": decision.reason} for decision in self.decisions},
            "notes": self.notes,
        }


def check(
    recipe: str | Path | Recipe,
    overrides: Sequence[str] = (),
    *,
    measure: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Check:
    """Read the data and build the model as `harken train` does, and predict updates, time and memory.

    Args:
        recipe: a name that ships, a TOML file, or a `Recipe`.
        overrides: changes to the recipe, each "section.key=value".
        measure: run a few updates and a part of a validation, for the time and the memory.
        progress: called with what is about to be done.

    Raises:
        UserError: the error that `harken train` would raise.
    """
    chosen = as_recipe(recipe, overrides)
    if chosen.train.precision != "float32" and chosen.train.device in ("auto", "cpu"):
        from harken.training.device import prepare_environment

        prepare_environment()
    from tempfile import TemporaryDirectory

    import torch

    from harken.plan import Plan, plan, prepare

    threads = torch.get_num_threads()
    with TemporaryDirectory(prefix="harken-") as folder, torch.random.fork_rng(devices=[]):
        try:
            require_paths(chosen)
            if measure:
                return _predict(plan(chosen, Path(folder), progress=progress), measure, progress)
            progress("reading the data and building the model")
            return _predict(Plan(chosen, prepare(chosen, Path(folder))), measure, progress)
        finally:
            torch.set_num_threads(threads)


def _predict(planned: Plan, measure: bool, progress: Callable[[str], None]) -> Check:
    from harken.models.sizing import count_parameters

    recipe, prepared = planned.recipe, planned.prepared
    task, train = prepared.task, recipe.train
    epoch = task.epoch(0)
    per_epoch = len(epoch) / train.accumulate
    tokens = sum(task.size(indices) for indices in epoch)
    parts = count_parameters(task.model)
    speed = None
    if measure:
        from harken.training.planning.measuring import measure_speed

        progress("measuring updates")
        speed = measure_speed(task, train)
    updates, seconds = predict(train, per_epoch, speed)
    corpus, *more = prepared.lines
    return Check(
        recipe,
        corpus,
        {name: value for name, value in prepared.facts.items() if name != "data"},
        parts,
        round(prepared.flops_per_token),
        tokens,
        per_epoch,
        updates,
        seconds,
        None if speed is None else speed.memory_bytes,
        speed,
        [*more[1:], *recipe.path_notes, *warnings(train, sum(len(indices) for indices in epoch), per_epoch, updates)],
        planned.decisions,
    )


def predict(train: TrainConfig, per_epoch: float, speed: Speed | None) -> tuple[int | None, float | None]:
    """Updates and seconds of a run, by the budget that ends first; None where they depend on an unknown speed.

    >>> from harken.training.config import TrainConfig
    >>> from harken.training.planning.measuring import Speed
    >>> speed = Speed(10, 0.5, 4000, 10.0, 0)
    >>> predict(TrainConfig(max_steps=1000, validate_every=500), 80.0, speed)
    (1000, 520.0)
    >>> predict(TrainConfig(max_minutes=1, validate_every=500), 80.0, speed)
    (100, 60.0)
    """
    limits = [] if train.max_steps is None else [float(train.max_steps)]
    if train.max_epochs is not None:
        limits.append(train.max_epochs * per_epoch)
    if speed is None:
        return (round(min(limits)), None) if limits and train.max_minutes is None else (None, None)
    validation, every = speed.seconds_per_validation, train.validate_every
    apart = speed.seconds_to_start + 2 * speed.seconds_per_checkpoint  # one at the start and one at the end
    update = speed.seconds_per_update + speed.seconds_per_checkpoint / train.checkpoint_every
    if train.max_minutes is not None:
        seconds = max(update, 60 * train.max_minutes - apart)
        alone = max(update, seconds - validation) / update  # with the only validation at the end
        limits.append(alone if alone < every else seconds / (update + validation / every))
    updates = max(1, round(min(limits)))
    validations = math.ceil(updates / every)  # the last one is at the end
    return updates, apart + updates * update + validations * validation


def warnings(train: TrainConfig, examples: int, per_epoch: float, updates: int | None) -> list[str]:
    """The reasons why the budget is unlikely to work, each with what to change."""
    problems = []
    if examples < FEW_EXAMPLES:
        problems.append(f"there are only {examples} training examples; a model hardly learns from so few")
    if updates is None:
        return problems
    if updates < train.warmup_steps:
        problems.append(
            f"the run ends after about {updates:,} updates, inside the warm-up of {train.warmup_steps:,}: the learning "
            "rate never reaches its peak; lower train.warmup_steps or train.batch_tokens, or raise the budget"
        )
    if updates < per_epoch:
        problems.append(
            f"the run sees about {updates / per_epoch:.0%} of the training data once; raise the budget, or make the "
            "model smaller"
        )
    elif updates < FEW_UPDATES:
        problems.append(f"the run has about {updates} updates, too few to learn from; raise the budget")
    return problems
