"""What a worker does for each job: operations by name, and the facts that `/v1/models` tells.

An operation is a function `(predictor, items, options) -> results`, one JSON value or exception for each item; items of
several requests come together. A streaming operation is `(predictor, item, options, cancelled) -> iterator of events`.
Modules are imported where a worker first needs them; the HTTP side imports this one alone, for the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

from harken.errors import UserError

_HERE = "harken.serving.operations"
OPERATIONS: dict[str, dict[str, str]] = {  # task -> operation -> the module that has a function of that name
    "translate": {
        **dict.fromkeys(("translate", "attention", "beam", "alternatives", "score"), "translate"),
        "gates": "looking",
    },
    "classify": {"classify": "texts", "attention": "looking", "gates": "looking"},
    "regress": {"regress": "texts", "attention": "looking", "gates": "looking"},
    "tag": {"tag": "texts", "gates": "looking"},
    "language": {"generate": "language", "score": "language", "gates": "looking"},
    "masked": {"fill": "texts", "gates": "looking"},
    "answer": {"answer": "texts", "gates": "looking"},
    "elmo": {"vectors": "texts"},
    "forecast": {"forecast": "media"},
    "transcribe": {"transcribe": "media"},
    "caption": {"caption": "media"},
    "handwriting": {"write": "media"},
}
STREAMS: dict[tuple[str, str], str] = {("translate", "translate"): "translate", ("language", "generate"): "language"}


def operations_of(task: str) -> list[str]:
    """The names of a job's operations.

    >>> operations_of("tag")
    ['tag', 'gates']
    """
    return list(OPERATIONS.get(task, {}))


def run_batch(predictor: Any, operation: str, items: Sequence[Any], options: dict[str, Any]) -> list[Any]:
    """One result for each item.

    Raises:
        UserError: the job has no such operation; or as the operation says.
    """
    task = predictor.recipe.task
    module = OPERATIONS.get(task, {}).get(operation)
    if module is None:
        raise UserError(f"a model of the task {task!r} has no operation {operation!r}")
    run: Callable[..., list[Any]] = getattr(import_module(f"{_HERE}.{module}"), operation)
    return run(predictor, items, options)


def run_stream(
    predictor: Any, operation: str, item: Any, options: dict[str, Any], cancelled: Callable[[], bool]
) -> Iterator[Any]:
    """The events of a stream.

    Raises:
        UserError: the operation cannot be streamed.
    """
    module = STREAMS.get((predictor.recipe.task, operation))
    if module is None:
        raise UserError(f"{operation} cannot be streamed by a model of the task {predictor.recipe.task!r}")
    run: Callable[..., Iterator[Any]] = getattr(import_module(f"{_HERE}.{module}"), f"stream_{operation}")
    return run(predictor, item, options, cancelled)


def facts_of(predictor: Any) -> dict[str, Any]:
    """What is told of a loaded model."""
    from harken.serving.operations.looking import facts

    return facts(predictor)
