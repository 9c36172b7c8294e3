"""The trials of a sweep on this machine: each in a process of its own, in rungs where settings are halved.

Successive halving (Jamieson and Talwalkar, 2016), in synchronous rungs: all settings are trained for a small share of
the budget, the best third goes on to three times as much, and so on. A run is not planned for the smaller budget: it
stops at the first validation past it and is resumed later, so that a run which reaches the whole budget has the
weights of an uninterrupted one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from typing import Any

from harken.machine import available_cores, require_fork
from harken.recipe import Recipe
from harken.sweeps.processes import run_each
from harken.sweeps.results import Sweep
from harken.sweeps.trials import Plan, Trial, is_spent, rungs, write_record
from harken.training.config import TrainConfig

Report = Callable[[str], None]
Callback = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Settings:
    """How trials are run."""

    halving: bool = False
    jobs: int = 1
    data: Any = None  # a table in memory
    progress: bool = False  # of every trial
    report: Report = lambda line: None


def import_trainer(recipe: Recipe) -> None:
    """Import once what every trial needs, before processes are forked."""
    from harken.training.device import prepare_environment

    if recipe.train.precision != "float32" and recipe.train.device in ("auto", "cpu"):
        prepare_environment()  # before torch is imported
    import torch._dynamo  # by every optimizer  # noqa: F401

    import harken.run  # noqa: F401
    from harken.tasks.registry import job_of

    job_of(recipe.task)


def run_trials(sweep: Sweep, settings: Settings) -> None:
    """Train what is not trained yet; errors of trials are recorded and do not end the others."""
    require_fork("train sweeps")
    plan, alive, before = sweep.plan, list(sweep.plan.settings), 0.0
    import_trainer(plan.base_recipe)
    for share, count in rungs(len(alive), settings.halving):
        if before:
            alive = [summary.name for summary in sweep.ranked(alive, before)[:count]]
            settings.report(f"{share:.0%} of the budget: {', '.join(alive)}")
        missing = [trial for trial in plan.trials if trial.name in alive and not trial.is_complete(share)]
        write_record(plan)
        for index, outcome in run_each(partial(train_trial, plan, settings, share), missing, settings.jobs):
            trial = missing[index]
            trial.refresh()
            trial.error, trial.share = outcome.error, trial.share if outcome.error else share
            write_record(plan)
            result = trial.error or f"{sweep.metric} {sweep.score(trial, share):.4g} in {trial.run.seconds:,.0f} s"
            done = sum(other.is_complete(share) or bool(other.error) for other in plan.trials if other.name in alive)
            settings.report(f"{done} of {len(alive) * len(plan.seeds)}: {trial.name}, seed {trial.seed}: {result}")
        before = share


def train_trial(
    plan: Plan, settings: Settings, share: float, trial: Trial, slot: int, callbacks: Sequence[Callback] = ()
) -> str:
    """Train or resume a trial up to a share of its budget.

    Args:
        slot: its number among the trials that run at once.
        callbacks: as `harken.train` takes them.

    Returns:
        Its folder.

    Raises:
        UserError: as `harken.train`.
    """
    from harken.api import train

    if trial.is_complete(share):
        return str(trial.folder)
    is_new = not (trial.folder / "recipe.toml").is_file()
    overrides = [
        *plan.fixed,
        *trial.overrides,
        *(machine_overrides(plan.base_recipe.train, settings.jobs, slot) if is_new else ()),
    ]
    stops = [] if share == 1 else [lambda entry: entry["kind"] == "valid" and is_spent(entry, share)]
    with redirect_stdout(sys.stderr):  # lines of training are no results
        train(
            plan.recipe,
            trial.folder,
            overrides=overrides,
            data=settings.data,
            resume=trial.folder.exists(),
            progress=settings.progress and settings.jobs == 1,
            callbacks=[*stops, *callbacks],
        )
    return str(trial.folder)


def machine_overrides(train: TrainConfig, jobs: int, slot: int) -> list[str]:
    """A share of the cores, or one of the GPUs, for each of several trials at once, where the recipe leaves it open."""
    import torch

    if jobs == 1:
        return []
    gpus = torch.cuda.device_count() if train.device == "auto" else 0
    if gpus:
        return [f"train.device=cuda:{slot % gpus}"]
    return [] if train.workers else [f"train.workers={max(1, available_cores() // jobs)}"]


def score_tests(sweep: Sweep, names: list[str], settings: Settings) -> None:
    """Score the trials of some settings on the test part, those that were not scored yet; what fails is noted."""
    trials = [trial for name in names for trial in sweep.plan.of(name) if trial.run.state == "finished"]
    missing = [trial for trial in trials if not trial.test]
    for index, outcome in run_each(score_test, missing, settings.jobs):
        missing[index].test = outcome.value or {}
        if outcome.error:
            sweep.note(f"no scores on a test part: {outcome.error}")
        write_record(sweep.plan)


def score_test(trial: Trial, slot: int) -> dict[str, float]:
    """The metrics of a trial on the test part; its outputs are kept for paired tests.

    Raises:
        UserError: there is no test part.
    """
    from harken.api import load
    from harken.run_folders.comparing import store_outputs
    from harken.tasks.registry import job_of

    model = load(trial.folder)
    job = job_of(model.recipe.task)
    scores = job.evaluate(model, "test", [], lambda count: None)
    store_outputs(trial.folder, "test", scores, job.paired_metric)
    return {metric.key or metric.name: metric.value for metric in scores.metrics if metric.key is not None}
