"""Which jobs there are, and where each keeps its parts.

Every job is a folder of `harken.tasks` with files of the same names, imported when they are needed:

    recipe.py   RECIPE, the class that checks its recipes     no torch
    check.py    estimate(recipe) for `harken check`
    job.py      JOB: from a recipe to a run, from a folder to an object to use (`harken.tasks.job`)
    task.py     batches, loss and metrics for the trainer (`harken.training.task`)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.models.sizing import Size

if TYPE_CHECKING:
    from harken.recipe import Recipe
    from harken.tasks.job import Job

JOBS: tuple[str, ...] = (
    "answer",
    "translate",
    "language",
    "classify",
    "forecast",
    "transcribe",
    "caption",
    "handwriting",
    "tag",
    "masked",
    "regress",
    "elmo",
    # one job a line
)


@dataclass(frozen=True)
class Estimate:
    """What `harken check` knows without reading all of the data."""

    corpus: str  # a description of the training data
    tokens_per_epoch_estimate: int | None  # terms of the loss in one epoch
    size: Size
    notes: list[str] = field(default_factory=list)


def recipe_class(task: Any) -> type[Recipe]:
    """The class of recipes with this `task`.

    Raises:
        UserError: there is no such job.
    """
    kind: type[Recipe] = _part(task, "recipe").RECIPE
    return kind


def estimate(recipe: Recipe) -> Estimate:
    """Look at the first lines of the data and at the shape of the model."""
    found: Estimate = _part(recipe.task, "check").estimate(recipe)
    return found


def job_of(task: str) -> Job:
    """The job that a recipe's `task` names."""
    job: Job = _part(task, "job").JOB
    return job


def _part(task: Any, name: str) -> ModuleType:
    if task not in JOBS:
        near = get_close_matches(str(task), JOBS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(JOBS)}"
        raise UserError(f"task is {task!r}, which is no job of harken; {hint}")
    return import_module(f"harken.tasks.{task}.{name}")
