"""One whole run of any job: data, model, training, card; from a recipe to a model folder."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel

from harken.card import CARD, best_validation, cut_short, write_card
from harken.data.io.in_memory import name_of
from harken.data.prepared.store import report_to
from harken.errors import UserError
from harken.files import TEMPORARY, atomic_write
from harken.recipe import Recipe, as_recipe, load_recipe, require_paths
from harken.tasks.data_record import DATA, UNCHECKED, Change, ChangedDataError, DataRecord, digests_of
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import FILE as PRETRAINED
from harken.tasks.registry import job_of
from harken.training.checkpoints import CHECKPOINT, MODEL, PREVIOUS, has_checkpoint, remove_shards
from harken.training.convergence import not_converged
from harken.training.device import choose_device, choose_precision, choose_workers
from harken.training.diagnosis import KEPT
from harken.training.display import choose_display
from harken.training.folder import LOCK, RunLock
from harken.training.log import METRICS, read_metrics
from harken.training.loop import Trainer
from harken.training.planning.fitting import FITTED, Plan, peak_rate
from harken.training.reporting import FOLDER as TENSORBOARD
from harken.training.reporting import Callback, TensorBoard
from harken.training.strategies.group import Group, joined

RECIPE = "recipe.toml"
OUTPUTS = "outputs"  # of `harken compare --split`
BUDGET = ("max_steps", "max_epochs", "max_minutes", "patience", "sharding", "tensorboard")  # may change on resuming
CHOSEN = ("device", "precision", "workers", "threads")  # where the recipe leaves them open, harken decides


def run_recipe(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    progress: bool,
    table: dict[str, list[Any]] | None = None,
    restart: bool = False,
    accept_changed_data: bool = False,
    callbacks: Sequence[Callback] = (),
) -> Any:
    """Train into `folder` and return the best model, as the object its job makes of it.

    Args:
        resume: continue the run in the folder; a finished one is loaded.
        table: columns in memory, to be trained on in the place of what the recipe's `[data]` names.
        restart: delete the run in the folder and start over.
        accept_changed_data: resume although files or settings of `[data]` are not what the run was started on.
        callbacks: called with each line of metrics.jsonl.

    Raises:
        UserError: bad data, data that changed since the run was started, a folder that holds another run, or one that
            another process is using.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; give a folder to train into")
    with joined() as group, RunLock(folder):
        return _run(recipe, folder, resume, progress, table, restart, accept_changed_data, callbacks, group)


def _run(
    recipe: Recipe,
    folder: Path,
    resume: bool,
    progress: bool,
    table: dict[str, list[Any]] | None,
    restart: bool,
    accept: bool,
    callbacks: Sequence[Callback],
    group: Group | None,
) -> Any:
    job = job_of(recipe.task)
    if table is not None:
        recipe = of_table(recipe, job, table)
    if restart:
        remove_run(folder, job)
    resuming = resume and (folder / RECIPE).is_file()
    earlier, changes, notes = None, list[Change](), list(recipe.path_notes)
    if resuming:
        earlier = DataRecord.load(folder)
        recipe = same_run(recipe, folder, any_data=accept or earlier is not None)
        if not has_checkpoint(folder) and (folder / CARD).is_file() and (folder / MODEL).is_file():
            if progress:
                print(f"{folder} holds a finished run without its checkpoint: the model is loaded as it is", flush=True)
            if group is not None:
                group.announce(RECIPE, {"recipe": recipe.to_toml(), "given": [], "state": "finished"})
            return job.load(folder, recipe, recipe.train.device)
        if not has_checkpoint(folder) and ((folder / MODEL).is_file() or (folder / METRICS).is_file()):
            raise UserError(
                f"{folder} holds an unfinished run without a checkpoint, so it cannot be resumed; train into a new "
                "folder, or start this run over with restart=True, which deletes it"
            )
    elif not (is_empty_dir(folder) or (resume and is_partial_run(folder, job))):
        raise UserError(f"{folder} is not empty; train into a new folder, or continue the run in it with resume=True")
    else:
        recipe = resolve(recipe)
    if resuming and earlier is None:
        notes.append(UNCHECKED.format(folder))
    if earlier is None and table is None:
        require_paths(recipe, "data." if resuming else "")
    elif earlier is not None:
        changes = earlier.changes(job, recipe)
        require_same_data(folder, changes, accept)
    display = choose_display(progress)
    report_to(display.note)
    torch.set_num_threads(recipe.train.threads or 1)
    torch.manual_seed(recipe.train.seed)
    if table is None:
        prepared = job.prepare(recipe, folder, resuming)
    else:
        prepared = job.prepare_table(recipe, table, folder, resuming)
    if recipe.train.branch_from is not None and not resuming:
        require_same_trunk(recipe, job, folder, Path(recipe.train.branch_from))
    if group is not None:
        given = sorted(recipe.train.model_fields_set)
        announced: dict[str, Any] = {
            "recipe": recipe.to_toml(),
            "given": given,
            "state": "resuming" if resuming else "new",
        }
        announced["auto_batch"] = recipe.train.auto_batch
        group.announce(RECIPE, announced)
        group.connect(recipe.train.device)
    if recipe.train.tensorboard:
        try:
            callbacks = [*callbacks, TensorBoard(folder)]
        except UserError as missing:
            notes.append(str(missing))
    trainer = Trainer(prepared.task, recipe.train, folder, display, callbacks, group)
    plan = None if resuming else trainer.fit(peak_rate(getattr(recipe, "model", None)))
    record_data(job, recipe, prepared, folder, earlier, changes, accept)
    atomic_write(folder / RECIPE, recipe.to_toml())
    if progress:
        print("\n".join([*describe(recipe, prepared, plan, group), *(f"note: {note}" for note in notes)]), flush=True)
    state = trainer.run(resume=resuming)
    write_card(folder, recipe, job, prepared, state)
    if progress and (ended := cut_short(recipe, state)):
        display.note(f"note: training was ended by {ended}")
    if progress and (warning := not_converged(read_metrics(folder), recipe.train.warmup_steps)):
        display.note(f"note: {warning}")
    if progress and prepared.baseline and (warning := prepared.baseline.warning(best_validation(folder))):
        display.note(f"note: {warning}")
    if group is not None:
        group.broadcast("written")
    return job.load(folder, recipe, recipe.train.device if group is None else str(group.device))


def follow_recipe(folder: Path, table: dict[str, list[Any]] | None = None) -> Any:
    """Train as a rank other than 0: rank 0 (`run_recipe`) reads the recipe, prepares the folder, decides and writes.

    Raises:
        UserError: what rank 0 or another rank raised, or the folder of rank 0 is not seen here.
    """
    with joined() as group:
        assert group is not None
        announced = group.await_announced(RECIPE)
        recipe = as_recipe(tomllib.loads(announced["recipe"]), with_data=table is None)
        recipe.train.model_fields_set.intersection_update(announced["given"])  # what is left open is fitted by all
        recipe.train._auto_batch = announced.get("auto_batch", False)
        job = job_of(recipe.task)
        if not folder.is_dir():
            raise UserError(
                f"{folder} of rank 0 does not exist here; give an --out on a file system all machines share"
            )
        if announced["state"] == "finished":
            return job.load(folder, recipe, recipe.train.device)
        torch.set_num_threads(recipe.train.threads or 1)
        torch.manual_seed(recipe.train.seed)
        if table is None:
            prepared = job.prepare(recipe, folder, True)
        else:
            prepared = job.prepare_table(recipe, table, folder, True)
        group.connect(recipe.train.device)
        trainer = Trainer(prepared.task, recipe.train, folder, group=group)
        if announced["state"] == "new":
            trainer.fit(peak_rate(getattr(recipe, "model", None)))
        trainer.run(resume=announced["state"] == "resuming")
        group.broadcast("written")
        return job.load(folder, recipe, str(group.device))


def of_table(recipe: Any, job: Job, table: dict[str, list[Any]]) -> Any:
    """The recipe with a table's name in the place of files: it goes on with the same table alone."""
    if type(job).prepare_table is Job.prepare_table:
        return recipe  # the job will say that it takes none
    known = type(recipe.data).model_fields
    said = {key: None for key in job.table_instead_of if key in known} | {job.table_key: name_of(table)}
    if recipe.data.corpus:  # its name is not the table's
        said["name"] = None
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=said)})


def resolve(recipe: Recipe) -> Recipe:
    """The recipe with everything decided that was left to harken, as it is written into the model folder."""
    train = recipe.train
    device = choose_device(train.device)
    decided = {
        "device": device,
        "precision": choose_precision(train.precision, device),
        "workers": train.workers or (choose_workers() if device == "cpu" else 1),
        "threads": train.threads or 1,
    }
    return recipe.model_copy(update={"train": train.model_copy(update=decided)})


def record_data(
    job: Job,
    recipe: Recipe,
    prepared: Prepared,
    folder: Path,
    earlier: DataRecord | None,
    changes: list[Change],
    accept: bool,
) -> None:
    """Write data.json, and what was accepted of changed data also on the card.

    Raises:
        ChangedDataError: the files are the same, but their splits are not.
    """
    parts, prepared.data = digests_of(prepared.data), None
    if earlier is not None and not changes:
        changes = earlier.changes_of_parts(parts)
        require_same_data(folder, changes, accept)
    record = DataRecord.of(job, recipe, parts, None if changes else earlier)
    record.accept(earlier, changes)
    record.save(folder)
    if accepted := record.accepted_in_words():
        prepared.facts["data changed on resuming"] = accepted
    prepared.facts["data fingerprint"] = f"{record.fingerprint[:16]}, see {DATA}"


def require_same_data(folder: Path, changes: list[Change], accept: bool) -> None:
    """Refuse to go on with changed data unless the user says so; what is missing cannot be accepted.

    Raises:
        ChangedDataError: with what changed.
    """
    if changes and (not accept or any(change.is_missing for change in changes)):
        raise ChangedDataError(folder, changes)


def same_run(recipe: Recipe, folder: Path, any_data: bool = False) -> Recipe:
    """The recipe a run was started with; only its budget may be changed on resuming.

    Args:
        any_data: take `[data]` as the recipe has it; it is compared with data.json instead, by content.
    """
    started = load_recipe(folder / RECIPE)
    if recipe.task != started.task:
        raise UserError(f"{folder} holds a run of task {started.task!r}, not {recipe.task!r}; train into a new folder")
    for section in type(recipe).model_fields:
        if section == "data" and any_data:
            continue
        if section == "train":
            continue
        if differs := different_key(getattr(recipe, section), getattr(started, section), section):
            raise UserError(
                f"{folder} was started with another [{section}] than this recipe has; resume with the recipe and --set "
                f"values it was started with, or train into a new folder (first difference: {differs})"
            )
    for key, old in started.train:
        new = getattr(recipe.train, key)
        left_open = (key in CHOSEN and new in ("auto", None)) or (
            key in FITTED and key not in recipe.train.model_fields_set
        )
        if key not in BUDGET and new != old and not left_open:
            raise UserError(
                f"{folder} was started with train.{key} = {old}, not {new}; resume with the old value, "
                f"or train into a new folder"
            )
    budget = {key: getattr(recipe.train, key) for key in BUDGET}
    changed: dict[str, Any] = {"train": started.train.model_copy(update=budget)}
    if any_data and "data" in type(recipe).model_fields:
        changed["data"] = recipe.data  # type: ignore[attr-defined]
    return started.model_copy(update=changed)


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


def different_key(new: Any, old: Any, name: str) -> str:
    """The first key of a section that a recipe sets to another value; "" for none. What it leaves open was fitted."""
    if not isinstance(new, BaseModel) or type(new) is not type(old):
        return "" if new == old else f"{name} = {str(old)[:100]}, not {str(new)[:100]}"
    for key in sorted(new.model_fields_set):
        if found := different_key(getattr(new, key), getattr(old, key), f"{name}.{key}"):
            return found
    return ""


def is_empty_dir(folder: Path) -> bool:
    """Whether nothing is there that training could overwrite."""
    return not (folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()))


def is_partial_run(folder: Path, job: Job) -> bool:
    """Whether a run was killed here before its recipe was written: then there is only what its job prepared."""
    names = {path.name for path in folder.iterdir() if not TEMPORARY.fullmatch(path.name)}
    return names <= {RECIPE, DATA, LOCK, PRETRAINED, *job.artifact_names()}


def remove_run(folder: Path, job: Job) -> None:
    """Delete what a run wrote, and nothing else."""
    written = {RECIPE, DATA, MODEL, CHECKPOINT, PREVIOUS, METRICS, CARD, PRETRAINED, OUTPUTS, TENSORBOARD}
    own = written | set(job.artifact_names())
    remove_shards(folder)
    for path in folder.iterdir():
        if (path.name in own or path.match(KEPT)) and path.is_file():
            path.unlink()
        elif path.name in own and path.is_dir():
            shutil.rmtree(path)


def describe(recipe: Recipe, prepared: Prepared, plan: Plan | None = None, group: Group | None = None) -> list[str]:
    """A few lines on what is about to be trained, skipped lines included."""
    train = recipe.train
    count, name = (train.workers, "process") if group is None else (group.world_size, "torchrun process")
    machine = (
        f"{train.device}, {train.precision}, {count} {name}{'es' if count != 1 else ''} x "
        f"{train.threads} thread{'s' if train.threads != 1 else ''}"
    )
    fitted = [] if plan is None or not plan.values else [
        f"fitted to the budget of about {plan.updates:,} updates: "
        + ", ".join(f"{key} {value}" for key, value in plan.values.items())
    ]  # fmt: skip
    return [*prepared.lines[:2], machine, *fitted, *prepared.lines[2:]]


__all__ = ["CHECKPOINT", "MODEL", "RECIPE", "run_recipe"]
