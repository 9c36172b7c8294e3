"""From the `task` of a recipe to the parts of its job.

A job that ships is a folder of `harken.tasks` with files of the same names, imported when they are needed:

    recipe.py   RECIPE, the class that checks its recipes     no torch
    job.py      JOB: from a recipe to a run, from a folder to an object to use (`harken.tasks.job`)
    task.py     batches, loss and metrics for the trainer (`harken.training.task`)

A job of another package is one class, registered by `@harken.register_task("name")` or an entry point: a `Job` whose
attribute `recipe` is the class of its recipes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harken.registry import JOBS, TASKS

if TYPE_CHECKING:
    from harken.tasks.job import Job

__all__ = ["JOBS", "job_of"]


def job_of(task: Any) -> Job:
    """The job that a recipe's `task` names.

    Raises:
        UserError: there is no such job.
    """
    found = TASKS.find(task)
    job: Job = found() if isinstance(found, type) else found
    return job
