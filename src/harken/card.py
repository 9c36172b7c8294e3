"""card.md: what a model is, what it was trained on, how good it is and what it cost."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

import torch

from harken.recipe import Recipe
from harken.tasks.job import Job, Prepared
from harken.training.checkpoints import Progress
from harken.training.log import read_metrics

CARD = "card.md"
NOTE = """Scores on test sets: `harken evaluate`. The recipe is in `recipe.toml`; `harken.load` reads this folder and
can run no code from it."""


def write_card(folder: Path, recipe: Recipe, job: Job, prepared: Prepared, state: Progress) -> None:
    """Write the card; the last thing a run does."""
    parameters = sum(parameter.numel() for parameter in prepared.task.model.parameters())
    best: dict[str, Any] = next((entry for entry in reversed(read_metrics(folder)) if entry.get("best")), {})
    operations = prepared.flops_per_token * state.tokens
    train = recipe.train
    rows = {
        **prepared.facts,
        "parameters": f"{parameters:,}",
        "updates": f"{state.step:,}, best at {state.best_step:,}",
        "target tokens seen": f"{state.tokens:,}",
        "training time": f"{state.seconds:,.0f} s, validation included",
        "training cost": f"about {operations:.2g} FLOPs (6 for every weight that a token meets in a product)",
        "computed with": f"torch {torch.__version__}, {train.device}, {train.precision}, "
        f"{train.workers} x {train.threads} threads, Python {platform.python_version()}",
        "validation": job.validation(best),
    }
    table = "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows.items())])
    atomic_write(folder / CARD, f"# {prepared.title}\n\n{table}\n\n{NOTE}\n")


def atomic_write(path: Path, text: str) -> None:
    """Write a text file so that a kill leaves the old one or the new one."""
    aside = path.with_name(path.name + ".part")
    aside.write_text(text, encoding="utf-8")
    os.replace(aside, path)
