"""The options of a search on the command line: one for each key of the recipe's `[search]` table, with its description.

`with_search_options(verb)` adds them to a verb, which gets those that were given as a dictionary `search`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harken.cli.common import annotation_of
from harken.errors import UserError
from harken.tasks.interface import search_fields

PANEL = "Search"


def with_search_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for every key; its parameter `search` gets those that were given."""
    fields = search_fields()
    signature = inspect.signature(verb, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "search"]
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=None, annotation=annotation_of(field))
        for name, field in fields.items()
    ]

    def run(*args: Any, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in fields if name in given}
        verb(*args, **given, search={name: value for name, value in chosen.items() if value not in (None, [])})

    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    return run


def models_and_file(paths: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """`M2 M3 FILE` after the first model: further model folders, and the file to read, if any.

    Raises:
        UserError: more than one file, or a model folder after the file.
    """
    models = [path for path in paths if path.is_dir()]
    files = [path for path in paths if not path.is_dir()]
    if len(files) > 1:
        raise UserError(f"{files[0]} and {files[1]} are both files; give models first, then one file")
    return models, files[0] if files else None


def weights_of(text: str | None) -> list[float] | None:
    """`2,1,1` as numbers.

    Raises:
        UserError: something else.
    """
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--weights {text} is no list of numbers; write them like 2,1,1") from None
