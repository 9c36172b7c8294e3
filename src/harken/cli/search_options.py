"""The options of a search on the command line: one for each key of the recipe's `[search]` table, with its description.

`with_search_options(verb)` adds them to a verb, which gets those that were given as a dictionary `search`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from harken.search.descriptions import OPTIONS, Option
from harken.tasks.interface import SEARCH_FLAGS

PANEL = "Search"
ELSEWHERE = {"beam"}  # what verbs have as an option of their own


def with_search_options(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for every key; its parameter `search` gets those that were given."""
    fields = {name: option for name, option in OPTIONS.items() if name not in ELSEWHERE}
    signature = inspect.signature(verb, eval_str=True)
    own = [parameter for parameter in signature.parameters.values() if parameter.name != "search"]
    added = [_parameter(name, option) for name, option in fields.items()]

    def run(*args: Any, **given: Any) -> None:
        chosen = {name: given.pop(name) for name in fields if name in given}
        verb(*args, **given, search={name: value for name, value in chosen.items() if value not in (None, [])})

    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in [*own, *added]}
    return run


def _parameter(name: str, option: Option) -> inspect.Parameter:
    help_text = option.description[:1].upper() + option.description[1:] + "."
    flag = SEARCH_FLAGS.get(name, "--" + name.replace("_", "-"))
    if option.kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    found = typer.Option(flag, help=help_text, rich_help_panel=PANEL, show_default=False)
    kind: Any = option.kind
    annotation = Annotated[kind | None, found]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def models_and_file(paths: Sequence[Path]) -> tuple[list[Path], Path | None]:
    """`M2 M3 FILE` after the first model: further model folders, and the file to read, if any.

    Raises:
        UserError: more than one file, or a model folder after the file.
    """
    from harken.errors import UserError

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
    from harken.errors import UserError

    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--weights {text} is no list of numbers; write them like 2,1,1") from None
