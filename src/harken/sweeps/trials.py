"""The trials of a sweep: every setting with every seed, each an ordinary run in a folder of its own.

    runs/sweep/sweep.json                         recipe, settings, seeds, errors, scores on the test part
    runs/sweep/cell=gru,learning_rate=0.001/seed-1    a run folder; `harken train --resume`, `inspect`, `evaluate` work

The run folders say how far a trial is, so a sweep that was killed goes on where it stopped. sweep.json holds what they
do not: why a trial failed, and its scores on the test part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from harken.errors import UserError
from harken.files import atomic_write
from harken.recipe import as_recipe
from harken.run_folders.reading import Run, is_run, read_run
from harken.sweeps.space import MAX_SETTINGS, Setting, draw, grid, name_of, parse_axis

RECORD = "sweep.json"
RANDOM = 10  # settings that are drawn where an axis is a range and no number is given
ETA = 3  # successive halving: a third of the settings goes on, with three times the budget
ENOUGH = 1 - 1e-6  # share of a budget at which it counts as spent


@dataclass
class Trial:
    """One setting with one seed."""

    name: str  # of the setting
    setting: Setting
    seed: int
    folder: Path
    error: str = ""
    share: float = 0.0  # of the budget that it was trained for, by this sweep
    test: dict[str, float] = field(default_factory=dict)  # metric -> value

    @property
    def overrides(self) -> list[str]:
        """Its changes to the recipe."""
        return [*(f"{key}={value}" for key, value in self.setting.items()), f"train.seed={self.seed}"]

    @cached_property
    def run(self) -> Run:
        """Its run folder as it was when this was first asked for."""
        return read_run(self.folder) if is_run(self.folder) else Run(self.folder, "waiting")

    def refresh(self) -> None:
        """Forget what was read of the folder."""
        self.__dict__.pop("run", None)

    def validations(self, share: float = 1.0) -> list[dict[str, Any]]:
        """Validations up to the first at which this share of the budget was spent."""
        entries = self.run.validations
        ends = [place for place, entry in enumerate(entries, 1) if is_spent(entry, share)]
        return entries[: ends[0]] if ends else entries

    def is_complete(self, share: float) -> bool:
        """Whether it was trained for this share of the budget; early stopping may have ended it before."""
        has_reached = self.share >= share or any(is_spent(entry, share) for entry in self.run.validations)
        return has_reached and self.run.state == "finished"


def is_spent(entry: Mapping[str, Any], share: float) -> bool:
    """Whether a line of metrics.jsonl is of a validation at which this share of the budget was spent."""
    return float(entry.get("spent") or 0.0) >= share * ENOUGH


@dataclass
class Plan:
    """All trials of a sweep, checked before the first is trained."""

    folder: Path
    recipe: Any  # as `harken.train` takes it: a name, a file, a dict or a Recipe
    fixed: list[str]  # overrides that are the same in all trials
    settings: dict[str, Setting]  # by name, in their order
    seeds: list[int]
    base: str  # the recipe without the axes, as TOML
    notes: list[str] = field(default_factory=list)

    @property
    def base_recipe(self) -> Any:
        """The recipe with what all trials share."""
        return as_recipe(self.recipe, self.fixed, with_data=False)

    @cached_property
    def trials(self) -> list[Trial]:
        """Every setting with the first seed, then with the second, and so on."""
        return [
            Trial(name, setting, seed, self.folder / name / f"seed-{seed}")
            for seed in self.seeds
            for name, setting in self.settings.items()
        ]

    def of(self, name: str) -> list[Trial]:
        """The trials of a setting, by seed."""
        return [trial for trial in self.trials if trial.name == name]


def make_plan(
    recipe: Any,
    out: Path,
    axes: Sequence[str],
    *,
    seeds: int,
    trials: int | None = None,
    with_data: bool = True,
) -> Plan:
    """Span the settings and validate the recipe of every trial.

    Args:
        axes: `key=value`, `key=a,b` or `key=low..high[:log]`.
        seeds: how many; from the recipe's own `train.seed` on.
        trials: settings to draw at random, in place of all combinations.
        with_data: whether the recipe has to name its data.

    Raises:
        UserError: a key or value that does not exist, in any of the combinations; or a folder of another sweep.
    """
    if seeds < 1 or (trials is not None and not 1 <= trials <= MAX_SETTINGS):
        raise UserError(f"--seeds and --trials are at least 1, and --trials at most {MAX_SETTINGS:,}; change them")
    parsed = [parse_axis(axis) for axis in axes]
    keys = [axis.key for axis in parsed]
    for key in keys:
        if keys.count(key) > 1:
            raise UserError(f"--set {key} is given twice; write its values with commas between, such as {key}=a,b")
        if key == "train.seed" and len(parsed[keys.index(key)].values) != 1:
            raise UserError("train.seed is not an axis; --seeds N trains every setting with N seeds")
    fixed = [f"{axis.key}={axis.values[0]}" for axis in parsed if len(axis.values) == 1]
    swept = [axis for axis in parsed if len(axis.values) != 1]
    base = as_recipe(recipe, fixed, with_data=with_data)
    first, notes = base.train.seed, list[str]()
    if trials is None and any(axis.is_range for axis in swept):
        trials = RANDOM
        notes.append(f"{RANDOM} settings are drawn at random; --trials N draws another number")
    listed = grid(swept) if trials is None else draw(swept, trials, first)
    if trials is not None and len(listed) < trials:
        notes.append(f"there are only {len(listed)} settings to draw")
    settings = {name_of(setting): setting for setting in listed}
    plan = Plan(out, recipe, fixed, settings, list(range(first, first + seeds)), base.to_toml(), notes)
    for setting in settings.values():
        as_recipe(recipe, [*fixed, *(f"{key}={value}" for key, value in setting.items())], with_data=with_data)
    read_record(plan)
    return plan


def read_record(plan: Plan) -> None:
    """Give the trials of a plan what sweep.json knows of them.

    Raises:
        UserError: the file is damaged, or of a sweep of another recipe.
    """
    path = plan.folder / RECORD
    if not path.is_file():
        if plan.folder.is_dir() and any(plan.folder.iterdir()):
            raise UserError(f"{plan.folder} is not empty and holds no sweep; choose another --out")
        return
    try:
        stored: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known = {(row["name"], row["seed"]): row for row in stored["trials"]}
        base = stored["recipe"]
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} cannot be read; delete it, and finished trials are read from their folders") from None
    if base != plan.base:
        raise UserError(f"{plan.folder} holds a sweep of another recipe; choose another --out, or delete it first")
    for trial in plan.trials:
        row = known.get((trial.name, trial.seed), {})
        trial.error, trial.share, trial.test = row.get("error", ""), row.get("share", 0.0), row.get("test", {})


def write_record(plan: Plan, content: Mapping[str, Any] | None = None) -> None:
    """Write sweep.json.

    Args:
        content: results of all trials.
    """
    keys = ("name", "setting", "seed", "error", "share", "test")
    rows = [{key: getattr(trial, key) for key in keys} for trial in plan.trials]
    plan.folder.mkdir(parents=True, exist_ok=True)
    record = {"recipe": plan.base, "seeds": plan.seeds, "trials": rows, **(content or {})}
    atomic_write(plan.folder / RECORD, json.dumps(record, ensure_ascii=False, indent=1) + "\n")


def rungs(count: int, halving: bool) -> list[tuple[float, int]]:
    """The rungs of a sweep over `count` settings: the share of the budget, and how many settings reach it.

    >>> rungs(9, halving=True), rungs(9, halving=False)
    ([(0.1111111111111111, 9), (0.3333333333333333, 3), (1.0, 1)], [(1.0, 9)])
    """
    steps = 0
    while halving and count >= ETA ** (steps + 1):
        steps += 1
    return [(float(ETA) ** (step - steps), count // ETA**step) for step in range(steps + 1)]
