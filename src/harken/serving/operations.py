"""Operations of a worker on a loaded model: those of its job, and the facts that `/v1/models` tells.

The operations of a job are its verb and those that its interface declares. They take items, dictionaries of plain
values (`harken.tasks.interface.Input.items`), and give one JSON value or exception for each; items of several requests
come together. The HTTP side imports this module for the declarations alone, and no torch with it. Uploaded documents
are read and written here, too (`harken.serving.text.files`), as that takes longer than the event loop may wait; it
needs no model.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harken.errors import UserError
from harken.tasks.registry import interface_of, job_of
from harken.tasks.results import as_result

if TYPE_CHECKING:
    from harken.tasks.interface import Operation
    from harken.tasks.job import Job

DOCUMENT_OPERATIONS = ("read_document", "write_document")


def operations_of(task: str) -> dict[str, Operation]:
    """The operations of a job by their names; the first is its interface.

    >>> list(operations_of("tag"))
    ['tag', 'gates']
    """
    interface = interface_of(task)
    known = [] if interface is None else [interface, *interface.operations]
    return {operation.verb: operation for operation in known}


def run_batch(
    predictor: Any,
    operation: str,
    items: Sequence[Any],
    options: dict[str, Any],
    cancelled: Callable[[], bool] | None = None,
) -> list[Any]:
    """One result for each item.

    Args:
        cancelled: asked at every step of a search that has steps; where it is True, results do not matter any more.

    Raises:
        UserError: the job has no such operation; or as the operation says.
    """
    if operation in DOCUMENT_OPERATIONS:
        from harken.serving.text.files import run_operation

        return [run_operation(operation, item) for item in items]
    task = predictor.recipe.task
    if operation not in operations_of(task):
        raise UserError(f"a model of the task {task!r} has no operation {operation!r}")
    job = job_of(task)
    if operation != "translate" and hasattr(predictor, "build_network"):
        predictor.build_network()  # to look inside
    serve: Callable[..., list[Any]] = getattr(job, f"serve_{operation}", partial(predict, job))
    try:
        with _interruptible(cancelled):
            return serve(predictor, items, options)
    except UserError as error:  # of an item, which may be that of another request than the rest
        if len(items) == 1:
            return [error]
        return [result for item in items for result in run_batch(predictor, operation, [item], options, cancelled)]


@contextmanager
def _interruptible(cancelled: Callable[[], bool] | None) -> Iterator[None]:
    from harken.search.program import interrupted

    token = interrupted.set(cancelled)
    try:
        yield
    finally:
        interrupted.reset(token)


def predict(job: Job, predictor: Any, items: Sequence[Mapping[str, Any]], options: dict[str, Any]) -> list[Any]:
    """`Job.predict` for items, as JSON values."""
    assert job.interface is not None
    form, chosen = job.interface.input, job.interface.options(**options)
    with as_files(items) as stored:
        examples = form.examples(job, predictor, stored)
        results = map(as_result, job.predict(predictor, examples, chosen, lambda done: None))
        return [{**result.to_json(chosen), **form.names(item)} for result, item in zip(results, items, strict=True)]


@contextmanager
def as_files(items: Sequence[Mapping[str, Any]]) -> Iterator[list[Mapping[str, Any]]]:
    """Items whose `data` lie in temporary files with the ending of their `name`; errors name them as the client did.

    Raises:
        UserError: what is wrong with a file.
    """
    if not any("data" in item for item in items):
        yield list(items)
        return
    with tempfile.TemporaryDirectory(prefix="harken-") as folder:
        stored: list[Mapping[str, Any]] = []
        for number, item in enumerate(items):
            path = Path(folder) / f"{number}{Path(item['name']).suffix[:8]}"
            path.write_bytes(item["data"])
            stored.append({**item, "path": path})
        try:
            yield stored
        except UserError as error:
            message = str(error)
            for item in stored:
                message = message.replace(str(item["path"]), item["name"])
            raise UserError(message) from None


def run_stream(
    predictor: Any, operation: str, item: Any, options: dict[str, Any], cancelled: Callable[[], bool]
) -> Iterator[dict[str, str]]:
    """The events of a stream: {"text": part}; parts put together are the result.

    Raises:
        UserError: the operation cannot be streamed.
    """
    task = predictor.recipe.task
    interface, job = interface_of(task), job_of(task)
    if interface is None or not interface.is_streamed or operation != interface.verb:
        raise UserError(f"{operation} cannot be streamed by a model of the task {task!r}")
    serve: Callable[..., Iterator[str]] | None = getattr(job, f"stream_{operation}", None)
    if serve is None:
        (example,) = interface.input.examples(job, predictor, [item])
        parts = job.stream(predictor, example, interface.options(**options), cancelled)
    else:
        parts = serve(predictor, item, options, cancelled)
    return ({"text": part} for part in parts if part)


def facts_of(predictor: Any) -> dict[str, Any]:
    """The facts about a loaded model for `/v1/models`."""
    from harken.search.stored import StoredModel
    from harken.tasks.predictor import network_facts

    recipe, known = predictor.recipe, network_facts(predictor)
    facts: dict[str, Any] = {
        "task": recipe.task,
        "architecture": recipe.model.title,
        "parameters": known["parameters"],
        "device": "cpu" if isinstance(predictor.model, StoredModel) else str(predictor.device),
        "recurrent": known["recurrent"],
        "operations": [
            name
            for name, operation in operations_of(recipe.task).items()
            if known["recurrent"] or not operation.needs_recurrence
        ],
    }
    for name in ("layers", "heads", "width"):
        value = getattr(recipe.model, name, None)
        if isinstance(value, int):
            facts[name] = value
    if hasattr(recipe, "search"):
        facts["search"] = recipe.search.model_dump(exclude_defaults=False)
    return facts | job_of(recipe.task).facts(predictor)
