"""card.md: what a model is, what it was trained on, how good it is and what it cost."""

from __future__ import annotations

import math
import platform
from pathlib import Path
from typing import Any

import torch

from harken.files import atomic_write
from harken.recipe import Recipe
from harken.tasks.job import Job, Prepared
from harken.training.checkpoints import Progress
from harken.training.folder import CARD
from harken.training.log import not_converged, read_metrics

ENOUGH = 500  # updates; the tagger of wnut17 is above its baseline after 275
NOTE = """Scores on test sets: `harken evaluate`. The recipe is in `recipe.toml`; `harken.load` reads this folder and
can run no code from it."""


def write_card(folder: Path, recipe: Recipe, job: Job, prepared: Prepared, state: Progress) -> None:
    """Write the card; the last thing a run does."""
    parameters = sum(parameter.numel() for parameter in prepared.task.model.parameters())
    metrics, best = read_metrics(folder), best_validation(folder)
    operations = prepared.flops_per_token * state.tokens
    train, unit = recipe.train, getattr(prepared.task, "unit", "tokens")
    rows = {
        **prepared.facts,
        "parameters": f"{parameters:,}",
        "updates": f"{state.step:,}, best at {state.best_step:,}",
        f"{'target tokens' if unit == 'tokens' else unit} seen": f"{state.tokens:,}",
        "training time": f"{state.seconds:,.0f} s, validation included",
        **({"ended by": ended} if (ended := cut_short(recipe, state)) else {}),
        **({"convergence": warning} if (warning := not_converged(metrics, train.warmup_steps)) else {}),
        "training cost": f"about {operations:.2g} FLOPs (6 for every weight that a token meets in a product)",
        "computed with": f"torch {torch.__version__}, {train.device}, {train.precision}, "
        f"{train.workers} x {train.threads} threads, Python {platform.python_version()}",
        "validation": job.validation(best),
        **job.comparison(recipe, metrics),
        **({"baseline": prepared.baseline.on_card(best)} if prepared.baseline else {}),
    }
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])
    atomic_write(folder / CARD, f"# {prepared.title}\n\n{table}\n\n{NOTE}\n")


def few_updates(state: Progress) -> str:
    """Names a budget where one in minutes ended a run after less than `ENOUGH` updates; else empty."""
    if state.stopped_by != "max_minutes" or state.step >= ENOUGH:
        return ""
    minutes = state.spent_minutes + (ENOUGH / max(1, state.step) - 1) * state.seconds / 60
    return (
        f"{state.step:,} updates are few: train.max_minutes = {math.ceil(minutes)} pays for {ENOUGH} at the speed of "
        "this run"
    )


def best_validation(folder: Path) -> dict[str, Any]:
    """The line of metrics.jsonl on the weights that were kept; empty where there is none."""
    return next((entry for entry in reversed(read_metrics(folder)) if entry.get("best")), {})


def cut_short(recipe: Recipe, state: Progress) -> str:
    """Says so where the clock ended a run before the steps or epochs it was planned for; else empty."""
    train = recipe.train
    if state.stopped_by != "max_minutes":
        return ""
    planned = [f"{train.max_steps:,} steps"] if train.max_steps else []
    planned += [f"{train.max_epochs:g} epochs"] if train.max_epochs else []
    if not planned:
        return ""
    return (
        f"the time limit of {train.max_minutes:g} minutes at step {state.step:,}, before the planned "
        f"{' or '.join(planned)}: the learning-rate schedule was cut short, so a slower or busier machine scores lower"
    )
