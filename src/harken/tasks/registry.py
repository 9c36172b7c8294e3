"""From the `task` of a recipe to the parts of its job.

A job that ships is a folder of `harken.tasks` with three files of the same names, imported when they are needed:

    recipe.py      RECIPE, the class that checks its recipes     no torch
    interface.py   INTERFACE, its command, route and form (`harken.tasks.interface`)     no torch
    job.py         JOB: from a recipe to a run, from a folder to an object to use (`harken.tasks.job`)

A job of another package is one class, registered by `@harken.register_task("name")` or an entry point: a `Job` whose
attribute `recipe` is the class of its recipes, and `interface` its interface.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from harken.registry import JOBS, TASKS

if TYPE_CHECKING:
    from harken.tasks.interface import Interface
    from harken.tasks.job import Job

__all__ = ["JOBS", "interface_of", "job_of"]


def interface_of(task: str) -> Interface | None:
    """The interface of the job that a recipe's `task` names; None where it declares none.

    Raises:
        UserError: there is no such job.
    """
    if task in JOBS:
        interface: Interface = import_module(f"harken.tasks.{task}.interface").INTERFACE
        return interface
    return job_of(task).interface


def plugin_interfaces() -> dict[str, Interface]:
    """The interfaces of jobs that do not ship, by their task: registered, of entry points, or in a named plugin."""
    interfaces: dict[str, Interface] = {}
    for task in [*TASKS.names()[len(JOBS) :], *TASKS.in_plugins()]:
        interface = job_of(task).interface
        if interface is not None and interface not in interfaces.values():
            interfaces[task] = interface
    return interfaces


def job_of(task: Any) -> Job:
    """The job that a recipe's `task` names.

    Raises:
        UserError: there is no such job.
    """
    entry = TASKS.find(task)
    job: Job = entry() if isinstance(entry, type) else entry
    return job
