"""The plan of a run: a recipe, with a value and a reason for everything that it leaves open.

A run reads a recipe, plans, trains and writes; nothing changes a recipe after it was read:

    load_recipe     a `Recipe`: what the user set, and defaults
    plan            a `Plan`: device, precision and processes of the machine, the size of the network by the time that
                    it may train, and `[train]` fitted to the budget and the data, from a few measured updates
    run_recipe      executes the plan (`harken.run`); `harken check` prints it

On the ranks of torchrun, rank 0 chooses machine and size and announces the recipe; all ranks fit `[train]` together.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from harken.recipe import as_recipe
from harken.tasks.job import Job, Prepared
from harken.tasks.registry import job_of
from harken.training.config import Decision
from harken.training.device import AUTO_KEYS, choose_machine
from harken.training.planning.fitting import UPDATES, choose_size, fit, peak_rate, regularisation
from harken.training.task import with_settings

if TYPE_CHECKING:
    from harken.training.strategies.group import Group

ANNOUNCED = "recipe.toml"  # under which rank 0 announces the recipe

Table = dict[str, list[Any]]  # columns in memory


@dataclass(frozen=True)
class Plan:
    """A recipe without open values, and the task that it trains."""

    recipe: Any  # complete, as it is written into the run folder
    prepared: Prepared
    decisions: tuple[Decision, ...] = ()  # what the recipe left open
    updates: int | None = None  # that the budget is expected to pay for, where something was fitted to them

    @property
    def fitted(self) -> dict[str, Any]:
        """Values of `[train]` that were fitted to the budget, by their keys."""
        return {
            decision.name: decision.value
            for decision in self.decisions
            if decision.name not in AUTO_KEYS and decision.key[:5] == "train"
        }


def plan(
    recipe: Any,
    folder: Path,
    *,
    table: Table | None = None,
    group: Group | None = None,
    progress: Callable[[str], None] = lambda what: None,
    started: float | None = None,
) -> Plan:
    """Measure and fit what a recipe leaves open.

    Args:
        folder: the artifacts that the job learns from its data are written here.
        table: columns in memory, in the place of the files of `[data]`.
        group: the ranks of a torchrun job; called by rank 0, while the others call `join_plan`.
        progress: called with what is about to be done.
        started: the `time.perf_counter()` at which a budget in minutes began; now where None.

    Raises:
        UserError: bad data, or a device that is not there.
    """
    started = time.perf_counter() if started is None else started
    recipe, decisions = resolve(recipe)
    progress("reading the data and building the model")
    prepared = prepare(recipe, folder, table)
    for decision in prepared.decisions:
        section = decision.key.partition(".")[0]
        table_config = getattr(recipe, section).model_copy(update={decision.name: decision.value})
        recipe = recipe.model_copy(update={section: table_config})
    sized = choose_model(Plan(recipe, prepared, (*decisions, *prepared.decisions)), started)
    if group is not None:
        announce(group, sized.recipe, "new")
        group.connect(sized.recipe.train.device)
    progress("fitting the defaults to the budget")
    return fit_training(sized, group, 0.0 if group is not None else time.perf_counter() - started)


def resume_plan(recipe: Any, folder: Path, *, table: Table | None = None, group: Group | None = None) -> Plan:
    """The plan of a run that goes on: its recipe is complete, and its artifacts are in the folder."""
    prepared = prepare(recipe, folder, table, resuming=True)
    if group is not None:
        announce(group, recipe, "resuming")
        group.connect(recipe.train.device)
    return Plan(recipe, prepared)


def announce(group: Group, recipe: Any, state: str) -> None:
    """Tell the other ranks the recipe, with what it leaves open of `[train]`: "new", "resuming" or "finished"."""
    values = tomllib.loads(recipe.to_toml())
    values["train"] = {key: values["train"].get(key, "none") for key in sorted(recipe.train.model_fields_set)}
    if recipe.train.auto_batch:
        values["train"]["batch_tokens"] = "auto"
    group.announce(ANNOUNCED, {"recipe": values, "state": state})


def join_plan(group: Group, folder: Path, table: Table | None = None) -> tuple[Plan | None, Any, str]:
    """The plan that rank 0 announces, the recipe and the state, on another rank; no plan for a finished run."""
    announced = group.await_announced(ANNOUNCED)
    recipe, state = as_recipe(announced["recipe"], with_data=table is None), announced["state"]
    if state == "finished" or not folder.is_dir():
        return None, recipe, state
    joined = Plan(recipe, prepare(recipe, folder, table, resuming=True))
    group.connect(recipe.train.device)
    return (fit_training(joined, group) if state == "new" else joined), recipe, state


def prepare(recipe: Any, folder: Path, table: Table | None = None, resuming: bool = False) -> Prepared:
    """Read the data, learn or load the artifacts and build the network, from the recipe's seed."""
    job: Job = job_of(recipe.task)
    torch.set_num_threads(recipe.train.threads or 1)
    torch.manual_seed(recipe.train.seed)
    if table is None:
        return job.prepare(recipe, folder, resuming)
    return job.prepare_table(recipe, table, folder, resuming)


def resolve(recipe: Any) -> tuple[Any, tuple[Decision, ...]]:
    """The recipe with device, precision, processes and threads for this machine where it leaves them open, and why."""
    train, decisions = choose_machine(recipe.train)
    return recipe.model_copy(update={"train": train}), decisions


def choose_model(plan: Plan, started: float) -> Plan:
    """The size and the dropout of a network, where a recipe leaves them open, by the minutes that it may train."""
    recipe, prepared = plan.recipe, plan.prepared
    train, resize = recipe.train, prepared.resize
    if resize is None or not prepared.sizes or train.max_minutes is None or train.max_steps is not None:
        return plan

    elapsed = lambda: time.perf_counter() - started  # noqa: E731
    size, epochs = choose_size(prepared.sizes, lambda size: resize(size).task, train, elapsed=elapsed)
    model, reason = size.model, f"at least {UPDATES:,} updates in the budget, or the smallest of three sizes"
    if "dropout" not in recipe.model.model_fields_set:
        model = model.model_copy(update={"dropout": regularisation(recipe.model.dropout, epochs)})
    changed = [key for key in type(model).model_fields if getattr(model, key) != getattr(recipe.model, key)]
    if not changed:
        return plan
    decisions = [
        Decision(f"model.{key}", getattr(model, key), f"data seen {epochs:.1f} times" if key == "dropout" else reason)
        for key in changed
    ]
    chosen = recipe.model_copy(update={"model": model})
    torch.manual_seed(train.seed)
    return replace(plan, recipe=chosen, prepared=resize(chosen), decisions=(*plan.decisions, *decisions))


def fit_training(plan: Plan, group: Group | None = None, elapsed: float = 0.0) -> Plan:
    """The open values of `[train]`, fitted to the budget and the data; called by all ranks of a group."""
    recipe = plan.recipe
    fitted = fit(plan.prepared.task, recipe.train, peak_rate(getattr(recipe, "model", None)), group, elapsed)
    prepared = replace(plan.prepared, task=with_settings(plan.prepared.task, fitted.config))
    complete = recipe.model_copy(update={"train": fitted.config})
    decisions = (*plan.decisions, *fitted.decisions)
    return replace(plan, recipe=complete, prepared=prepared, decisions=decisions, updates=fitted.updates)
