"""How a run starts in its folder: which folder is free, what may be resumed, and what a restart deletes.

The rules are the same for `harken train`, `harken.train` and modules of one's own. On the ranks of torchrun rank 0
decides and writes; a job that torchrun starts again after a failure resumes, whatever was asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from harken.errors import UserError
from harken.files import TEMPORARY
from harken.recipe import Recipe, load_recipe, require_paths
from harken.tasks.data_record import DATA, UNCHECKED, Change, ChangedDataError, DataRecord
from harken.tasks.job import Job
from harken.tasks.pretrained_embeddings import FILE as PRETRAINED
from harken.training.checkpoints import has_checkpoint, remove_shards
from harken.training.config import TrainConfig
from harken.training.device import AUTO_KEYS, choose_machine, fill_open
from harken.training.diagnosis import BATCHES
from harken.training.digests import DIGESTS, require_unchanged
from harken.training.folder import (
    CARD,
    CHECKPOINT,
    LOCK,
    MODEL,
    OUTPUTS,
    PREVIOUS,
    RECIPE,
    Request,
    is_empty_dir,
    not_empty,
)
from harken.training.log import METRICS
from harken.training.planning.fitting import FITTED
from harken.training.reporting import FOLDER as TENSORBOARD

BUDGET = ("max_steps", "max_epochs", "max_minutes", "patience", "sharding", "tensorboard")  # may change on resuming
WRITTEN = frozenset({MODEL, CHECKPOINT, PREVIOUS, METRICS, TENSORBOARD})  # by the trainer
OF_RECIPES = frozenset({RECIPE, DATA, DIGESTS, CARD, PRETRAINED, OUTPUTS})  # and by a run of a recipe


@dataclass(frozen=True)
class Start:
    """A run that may start: anew, from what an earlier one left in the folder, or not at all as it has ended."""

    recipe: Any
    state: Literal["new", "resuming", "finished"]
    record: DataRecord | None = None  # of the data that the earlier run was started on
    changes: list[Change] = field(default_factory=list)  # of the data since then, which are accepted
    notes: list[str] = field(default_factory=list)  # for the user


def start_run(recipe: Any, job: Job, asked: Request, with_files: bool = True) -> Start:
    """Decide how a run starts; called by the owner of the folder.

    Args:
        with_files: whether the data is in files that the recipe names, and not in memory.

    Raises:
        UserError: a folder of something else, another recipe than the run has, files that are missing, or data that
            changed since the run was started.
    """
    folder, notes = asked.folder, list(recipe.path_notes)
    if asked.restart:
        remove_run(folder, WRITTEN | OF_RECIPES | job.artifact_names())
    if not (asked.resume and is_planned(folder)):
        if not is_empty_dir(folder) and not (asked.resume and is_partial_run(folder, job)):
            raise not_empty(folder)
        if with_files:
            require_paths(recipe)
        return Start(begun_with(recipe, folder), "new", notes=notes)
    require_unchanged(folder)
    record = DataRecord.load(folder)
    started = same_run(recipe, folder, any_data=asked.accept_changed_data or record is not None)
    if not has_checkpoint(folder) and (folder / MODEL).is_file() and (folder / CARD).is_file():
        return Start(started, "finished")
    if not has_checkpoint(folder) and ((folder / MODEL).is_file() or (folder / METRICS).is_file()):
        raise UserError(
            f"{folder} holds an unfinished run without a checkpoint, so it cannot be resumed; train into a new "
            "folder, or start this run over with restart=True, which deletes it"
        )
    require_same_machine(folder, started.train)
    if record is not None:
        changes = record.changes(job, started)
        require_same_data(asked, changes)
        return Start(started, "resuming", record, changes, notes)
    if with_files:
        require_paths(started, "data.")
    return Start(started, "resuming", notes=[*notes, UNCHECKED.format(folder)])


def is_planned(folder: Path) -> bool:
    """Whether the recipe in the folder is complete: a run that was killed while it planned wrote no data.json."""
    later = (DATA, MODEL, METRICS, CARD)
    return (folder / RECIPE).is_file() and (any((folder / name).is_file() for name in later) or has_checkpoint(folder))


def is_partial_run(folder: Path, job: Job) -> bool:
    """Whether a run was killed here before it was planned: then there is only what its job prepared."""
    names = {path.name for path in folder.iterdir() if not TEMPORARY.fullmatch(path.name)}
    return names <= {RECIPE, DATA, DIGESTS, LOCK, PRETRAINED, *job.artifact_names()}


def begun_with(recipe: Any, folder: Path) -> Any:
    """The recipe with what a run that was killed while it planned had chosen for the machine, where it is open."""
    if not (folder / RECIPE).is_file():
        return recipe
    earlier = load_recipe(folder / RECIPE, with_data=False).train
    return recipe.model_copy(update={"train": fill_open(recipe.train, dict(earlier))})


@contextmanager
def removed_on_failure(start: Start, folder: Path, job: Job) -> Iterator[None]:
    """Start a run inside the block: where a new one fails before it has logged anything, the folder is left as it was.

    Afterwards its log, and the batch of a loss that is not finite, say what happened.
    """
    try:
        yield
    except BaseException:
        has_log = (folder / METRICS).is_file() and (folder / METRICS).stat().st_size > 0
        if start.state == "new" and not has_log and not has_checkpoint(folder):
            remove_run(folder, WRITTEN | OF_RECIPES | job.artifact_names())
        raise


def remove_run(folder: Path, names: Iterable[str]) -> None:
    """Delete what a run wrote, and nothing else."""
    own = set(names)
    remove_shards(folder)
    for path in folder.iterdir():
        if (path.name in own or path.match(BATCHES)) and path.is_file():
            path.unlink()
        elif path.name in own and path.is_dir():
            shutil.rmtree(path)


def require_same_data(asked: Request, changes: list[Change]) -> None:
    """Refuse to go on with changed data unless the user says so; what is missing cannot be accepted.

    Raises:
        ChangedDataError: with what changed.
    """
    if changes and (not asked.accept_changed_data or any(change.is_missing for change in changes)):
        raise ChangedDataError(asked.folder, changes)


def require_same_machine(folder: Path, train: TrainConfig) -> None:
    """Refuse to resume a run whose device or precision this machine does not have.

    Raises:
        UserError: see above.
    """
    try:
        choose_machine(train)
    except UserError as problem:
        raise UserError(
            f"{folder} cannot be resumed here as it began: {str(problem).partition(';')[0]}; resume it on a machine "
            "like the one it began on, or train into a new folder"
        ) from problem


def same_run(recipe: Any, folder: Path, any_data: bool = False) -> Any:
    """The recipe a run was started with; only its budget may be changed on resuming.

    Args:
        any_data: take `[data]` as the recipe has it; it is compared with data.json instead, by content.

    Raises:
        UserError: with the first key that differs.
    """
    started = load_recipe(folder / RECIPE)
    if recipe.task != started.task:
        raise UserError(f"{folder} holds a run of task {started.task!r}, not {recipe.task!r}; train into a new folder")
    for section in type(recipe).model_fields:
        if section == "train" or (section == "data" and any_data):
            continue
        if differs := different_key(getattr(recipe, section), getattr(started, section), section):
            raise UserError(
                f"{folder} was started with another [{section}] than this recipe has; resume with the recipe and --set "
                f"values it was started with, or train into a new folder (first difference: {differs})"
            )
    for key, old in started.train:
        new = getattr(recipe.train, key)
        is_open = key in FITTED and key not in recipe.train.model_fields_set
        is_open = is_open or (key in AUTO_KEYS and new in ("auto", None))
        if key not in BUDGET and new != old and not is_open:
            raise UserError(
                f"{folder} was started with train.{key} = {old}, not {new}; resume with the old value, "
                f"or train into a new folder"
            )
    budget = {key: getattr(recipe.train, key) for key in BUDGET}
    changed: dict[str, Any] = {"train": started.train.model_copy(update=budget)}
    if any_data and "data" in type(recipe).model_fields:
        decided = {key: old for key, old in started.data if getattr(recipe.data, key, None) == "auto"}
        changed["data"] = recipe.data.model_copy(update=decided)
    return started.model_copy(update=changed)


def different_key(new: Any, old: Any, name: str) -> str:
    """The first key of a section that a recipe sets to another value; "" for none. What it leaves open was fitted."""
    if not isinstance(new, BaseModel) or type(new) is not type(old):
        return "" if new == old else f"{name} = {str(old)[:100]}, not {str(new)[:100]}"
    for key in sorted(new.model_fields_set):
        if difference := different_key(getattr(new, key), getattr(old, key), f"{name}.{key}"):
            return difference
    return ""


def require_same_trunk(recipe: Recipe, job: Job, folder: Path, trunk: Path) -> None:
    """Refuse to branch from a run whose checkpoint means something else here: other tokens, another optimizer.

    Raises:
        UserError: with what differs.
    """
    if not (trunk / RECIPE).is_file():
        return  # the trainer says that there is no run
    started = load_recipe(trunk / RECIPE)
    for key, old, new in (
        ("task", started.task, recipe.task),
        ("train.optimizer", started.train.optimizer, recipe.train.optimizer),
    ):
        if old != new:
            raise UserError(
                f"train.branch_from: the run in {trunk} has {key} = {old}, not {new}; branch with the same value"
            )
    for name in sorted(job.artifact_names()):
        own, old_file = folder / name, trunk / name
        if own.is_file() != old_file.is_file() or (own.is_file() and own.read_bytes() != old_file.read_bytes()):
            raise UserError(
                f"train.branch_from: {name} of the run in {trunk} is another than that of this recipe, so its weights "
                "belong to other data or settings; branch with the [data] and [tokenizer] of that run"
            )
