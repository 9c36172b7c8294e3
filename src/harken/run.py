"""One whole run of any job, from a recipe to a model folder: read, plan, train, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harken.card import best_validation, cut_short, few_updates, write_card
from harken.data.io.in_memory import name_of
from harken.data.prepared.store import report_to
from harken.errors import UserError
from harken.files import atomic_write
from harken.plan import Plan, Table, announce, join_plan, plan, resolve, resume_plan
from harken.recipe import Recipe
from harken.run_folders.starting import Start, removed_on_failure, require_same_data, require_same_trunk, start_run
from harken.tasks.data_record import DATA, DataRecord, digests_of
from harken.tasks.job import Job, Prepared
from harken.tasks.pretrained_embeddings import FILE as PRETRAINED
from harken.tasks.registry import job_of
from harken.training.checkpoints import Progress
from harken.training.digests import DIGESTS, write_digests
from harken.training.display import Display, choose_display
from harken.training.folder import RECIPE, Request, RunLock
from harken.training.log import not_converged, read_metrics
from harken.training.loop import Trainer
from harken.training.reporting import Callback, TensorBoard
from harken.training.strategies.group import Group, joined


def run_recipe(
    recipe: Recipe,
    asked: Request,
    progress: bool,
    table: Table | None = None,
    callbacks: Sequence[Callback] = (),
) -> Any:
    """Train into a folder and return the best model, as the object its job makes of it.

    Args:
        asked: the folder, and whether the run in it goes on or is deleted; a finished one is loaded.
        table: columns in memory, to be trained on in the place of what the recipe's `[data]` names.
        callbacks: called with each line of metrics.jsonl.

    Raises:
        UserError: bad data, data that changed since the run was started, a folder that holds another run, or one that
            another process is using.
    """
    folder, job = asked.folder, job_of(recipe.task)
    with joined() as group, RunLock(folder):
        start = start_run(of_table(recipe, job, table), job, asked, with_files=table is None)
        if start.state == "finished":
            return _load_finished(start, job, folder, progress, group)
        display = choose_display(progress)
        report_to(display.log)
        with removed_on_failure(start, folder, job):
            planned = _plan(start, asked, table, group)
            if planned.recipe.train.branch_from is not None and start.state == "new":
                require_same_trunk(planned.recipe, job, folder, Path(planned.recipe.train.branch_from))
            recipe, notes = planned.recipe, list(start.notes)
            record = record_data(job, recipe, planned.prepared, start, asked)
            planned = replace(planned, prepared=recorded(planned.prepared, record))
            (folder / DIGESTS).unlink(missing_ok=True)  # of the recipe that is now replaced
            atomic_write(folder / RECIPE, recipe.to_toml())
            write_digests(folder, job.artifact_names() | {PRETRAINED})
            record.save(folder)
            if recipe.train.tensorboard:
                try:
                    callbacks = [*callbacks, TensorBoard(folder)]
                except UserError as missing:
                    notes.append(str(missing))
            if progress:
                print("\n".join([*describe(planned, group), *(f"note: {note}" for note in notes)]), flush=True)
            prepared = planned.prepared
            trainer = Trainer(prepared.task, recipe.train, folder, display, callbacks, group, asked.started)
            state = trainer.run(resume=start.state == "resuming")
        write_card(folder, recipe, job, prepared, state)
        if progress:
            _warn(display, recipe, prepared, folder, state)
            for name, row in job.comparison(recipe, read_metrics(folder)).items():
                display.log(f"{name}: {row}")
        if group is not None:
            group.broadcast("written")
        model = job.load(folder, recipe, recipe.train.device if group is None else str(group.device))
        job.prepare_opening(model)
        return model


def follow_recipe(folder: Path, table: Table | None = None) -> Any:
    """Train as a rank other than 0: rank 0 (`run_recipe`) reads the recipe, prepares the folder, decides and writes.

    Raises:
        UserError: what rank 0 or another rank raised, or the folder of rank 0 is not seen here.
    """
    with joined() as group:
        assert group is not None
        planned, recipe, state = join_plan(group, folder, table)
        if not folder.is_dir():
            raise UserError(
                f"{folder} of rank 0 does not exist here; give an --out on a file system all machines share"
            )
        job = job_of(recipe.task)
        if planned is None:
            return job.load(folder, recipe, recipe.train.device)
        trainer = Trainer(planned.prepared.task, planned.recipe.train, folder, group=group)
        trainer.run(resume=state == "resuming")
        group.broadcast("written")
        return job.load(folder, planned.recipe, str(group.device))


def _plan(start: Start, asked: Request, table: Table | None, group: Group | None) -> Plan:
    """The plan of a run. While a new one is made, the folder says what was chosen for the machine, so that a run which
    is killed meanwhile begins with the same choice when it is resumed."""
    folder = asked.folder
    if start.state == "resuming":
        return resume_plan(start.recipe, folder, table=table, group=group)
    recipe, _ = resolve(start.recipe)
    atomic_write(folder / RECIPE, recipe.to_toml())
    return plan(recipe, folder, table=table, group=group, started=asked.started)


def _load_finished(start: Start, job: Job, folder: Path, progress: bool, group: Group | None) -> Any:
    if progress:
        print(f"{folder} holds a finished run without its checkpoint: the model is loaded as it is", flush=True)
    if group is not None:
        announce(group, start.recipe, "finished")
    return job.load(folder, start.recipe, start.recipe.train.device)


def _warn(display: Display, recipe: Any, prepared: Prepared, folder: Path, state: Progress) -> None:
    """Notes for the user on a run that ended."""
    if ended := cut_short(recipe, state):
        display.log(f"note: training was ended by {ended}")
    if warning := not_converged(read_metrics(folder), recipe.train.warmup_steps):
        display.log(f"note: {warning}")
    if prepared.baseline and (warning := prepared.baseline.warning(best_validation(folder))):
        display.log("; ".join(filter(None, [f"note: {warning}", few_updates(state)])))


def of_table(recipe: Any, job: Job, table: Table | None) -> Any:
    """The recipe with a table's name in the place of files: it goes on with the same table alone."""
    if table is None or type(job).load_table is Job.load_table:
        return recipe  # the job will say that it takes none
    known = type(recipe.data).model_fields
    changed = {key: None for key in job.table_instead_of if key in known} | {job.table_key: name_of(table)}
    if getattr(recipe.data, "corpus", None) and "name" in known:  # its name is not the table's
        changed["name"] = None
    return recipe.model_copy(update={"data": recipe.data.model_copy(update=changed)})


def record_data(job: Job, recipe: Any, prepared: Prepared, start: Start, asked: Request) -> DataRecord:
    """The content of data.json.

    Raises:
        ChangedDataError: the files are the same, but their splits are not.
    """
    parts, changes = digests_of(prepared.data), start.changes
    if start.record is not None and not changes:
        changes = start.record.changes_of_parts(parts)
        require_same_data(asked, changes)
    record = DataRecord.of(job, recipe, parts, None if changes else start.record)
    record.accept(start.record, changes)
    return record


def recorded(prepared: Prepared, record: DataRecord) -> Prepared:
    """The run with what its card says of the data, and without the corpus, which training does not need."""
    accepted = record.format_accepted()
    changed = {"data changed on resuming": accepted} if accepted else {}
    facts = {**prepared.facts, **changed, "data fingerprint": f"{record.fingerprint[:16]}, see {DATA}"}
    return replace(prepared, data=None, sizes=(), resize=None, facts=facts)


def describe(planned: Plan, group: Group | None = None) -> list[str]:
    """A few lines on what is about to be trained, skipped lines included."""
    train, lines = planned.recipe.train, planned.prepared.lines
    count, name = (train.workers, "process") if group is None else (group.world_size, "torchrun process")
    machine = (
        f"{train.device}, {train.precision}, {count} {name}{'es' if count != 1 else ''} x "
        f"{train.threads} thread{'s' if train.threads != 1 else ''}"
    )
    fitted = [] if not planned.fitted else [
        f"fitted to the budget of about {planned.updates:,} updates: "
        + ", ".join(f"{key} {value}" for key, value in planned.fitted.items())
    ]  # fmt: skip
    return [*lines[:2], machine, *fitted, *lines[2:]]
