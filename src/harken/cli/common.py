"""The common parts of verbs: arguments, models for the right verb, reading lines and examples, tables and progress.

Results go to stdout, as tables for people at a terminal and as plain tab-separated lines for everything else; what is
said beside them goes to stderr.
"""

from __future__ import annotations

import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args

import typer

from harken.cli.messages import logger
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.interface import BATCH, Field, Reading

if TYPE_CHECKING:
    from harken.tasks.job import Drawable, Job

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
ENDINGS = (".html", ".svg", ".png")


def complete_recipe(incomplete: str) -> list[str]:
    """Recipes that ship, for shell completion; files are completed by the shell itself."""
    from harken.recipe.files import recipe_names

    return [name for name in recipe_names() if name.startswith(incomplete)]


RECIPE_HELP = "A recipe that ships (`harken recipes` lists them) or a TOML file."
RecipeName = Annotated[str, typer.Argument(help=RECIPE_HELP, autocompletion=complete_recipe)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="A.B=C", help="Change one value of the recipe; may be given many times."),
]
ModelFolder = Annotated[Path, typer.Argument(help="Model folder, as `harken train` made it.")]
Beam = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Live hypotheses; 1 is greedy search. Default: the recipe's.")
]
FileFormat = Annotated[
    str,
    typer.Option("--format", help="Format of FILE: lines, or one of the recipe's data.format. Default: by its name."),
]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="Column of FILE to read. Default: that of the training data.")
]
ReplaceBytes = Annotated[
    bool, typer.Option("--replace", help="Tell lines that are not UTF-8 and replace their wrong bytes, not stop.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def examples(*lines: str) -> Callable[[F], F]:
    """A decorator that gives a verb the examples at the end of its help."""

    def decorate(verb: F) -> F:
        verb.examples = lines  # type: ignore[attr-defined]
        return verb

    return decorate


def with_signature(verb: F, kinds: Mapping[str, Any], defaults: Mapping[str, Any]) -> F:
    """A function of keyword arguments with the parameters from which typer makes arguments and options."""
    required, keyword = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
    verb.__annotations__ = dict(kinds)
    verb.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, keyword, annotation=kind, default=defaults.get(name, required))
            for name, kind in kinds.items()
        ]
    )
    return verb


def annotation_of(field: Field) -> Any:
    """The type of a parameter, with its flag, help and bounds."""
    option = field.option
    flag = option.flag or "--" + field.name.replace("_", "-")
    text = option.description[:1].upper() + option.description[1:] + "."
    if field.default is None and bool in get_args(field.kind):
        flag = f"{flag}/--no-{flag[2:]}"
    details = typer.Option(
        flag,
        help=text,
        min=option.ge,
        max=option.le,
        hidden=option.is_hidden,
        rich_help_panel=option.panel,
        show_default=field.default not in (None, MISSING) and option.panel is None,
    )
    return Annotated[field.kind, details]


def output_folder(text: str) -> Path:
    """Parse the value of `--out` as a folder; the empty path would be the working directory.

    Raises:
        typer.BadParameter: it is empty.
    """
    if not str(text).strip():
        raise typer.BadParameter("it is empty; name a folder, or write . for the working directory")
    return expand_user(text)


def folder_option(text: str) -> Any:
    """An option that names a folder to write, with its help."""
    return typer.Option(parser=output_folder, metavar="DIRECTORY", help=text)


def use_of(task: str, folder: Path) -> str:
    """A command that puts a model to work.

    >>> use_of("tag", Path("runs/my tags"))
    "harken tag 'runs/my tags'"
    """
    from harken.tasks.registry import job_of

    return job_of(task).usage.format(shlex.quote(str(folder)))


def load_with_job(folder: Path) -> tuple[Any, Job]:
    """The object in a model folder, and its job.

    Raises:
        UserError: it is no model folder.
    """
    from harken.api import load
    from harken.kernels.weights import freeze
    from harken.tasks.registry import job_of

    model = load(folder)
    freeze(model)  # no command changes the weights of a model that it loaded, so no call need compare them
    return model, job_of(model.recipe.task)


def load_for(task: str, folder: Path) -> Any:
    """The object in a model folder.

    Raises:
        UserError: it is no model folder, or was trained for another job.
    """
    model, _ = load_with_job(folder)
    if model.recipe.task != task:
        raise UserError(other_job(folder, model.recipe.task, task))
    return model


def other_job(folder: Path, task: str, needed: str) -> str:
    """The message about a model of another job than a verb needs."""
    return (
        f"{folder} was trained for the task {task!r}, and this needs a model of the task {needed!r}; "
        f"use {use_of(task, folder)}"
    )


def accepted_options(job: Job, folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of the command line that were given, which not every job takes.

    Raises:
        UserError: the job does not take one of them.
    """
    chosen = {name: value for name, value in given.items() if value is not None and value is not False}
    for name in chosen:
        if name not in job.options:
            raise UserError(
                f"--{name.replace('_', '-')} is not an option for a model of this task, which {folder} is; leave it out"
            )
    return chosen


def require_ending(out: Path | None, endings: Sequence[str] = ENDINGS, stem: str = "") -> None:
    """Refuse a file that no figure can be written as, before anything is computed.

    Raises:
        UserError: another ending.
    """
    if out is not None and out.suffix.lower() not in endings:
        names = [f"{stem}{ending}" for ending in endings]
        allowed = f"{', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else names[0]
        raise UserError(f"--out {out} has the ending {out.suffix!r}; name it {'like ' * bool(stem)}{allowed}")


def save_figure(figure: Drawable, out: Path | None) -> None:
    """Write a figure where it is asked for, and say so."""
    if out is not None:
        figure.save(out)
        logger.info(f"Wrote {out}")


def show_figure(figure: Drawable, values: Mapping[str, Any] | None, out: Path | None) -> None:
    """Print a figure, or its values as JSON, and write it where it is asked for."""
    if values is None:
        print(figure.to_terminal())
    else:
        print_json(values)
    save_figure(figure, out)


def is_file(given: str) -> bool:
    """Whether this is the path of a file, and not a text."""
    try:
        return Path(given).is_file()
    except (OSError, ValueError):  # too long for a name, or a NUL character
        return False


def open_lines(file: Path | None, replace: bool = False) -> Iterator[str]:
    """The lines of a file, or of stdin for None and `-`; see `Reading.lines`."""
    return Reading(replace=replace, report=logger.info).lines(file)


def in_batches(items: Iterator[T], file: Path | None, size: int = BATCH) -> Iterator[list[T]]:
    """Give as many items at a time as are worked on together: one where they are typed, else `size`."""
    size = 1 if file is None and sys.stdin.isatty() else size
    while batch := list(islice(items, size)):
        yield batch
        sys.stdout.flush()


def print_json(value: Any) -> None:
    """A value on one line, for programs."""
    print(json.dumps(value, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], always_named: bool = False) -> None:
    """Rows under headings; where stdout is no terminal without boxes, and without headings unless `always_named`."""
    rows = list(rows)
    if not sys.stdout.isatty():
        for row in [headings, *rows] if always_named else rows:
            print("\t".join(row))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=box.SIMPLE_HEAD, show_header=any(headings))
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def format_bytes(count: float) -> str:
    """1234567 -> 1.2 MB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:,.1f} {unit}"
        count /= 1000
    return ""


def format_seconds(seconds: float) -> str:
    """5400 -> 1.5 hours."""
    for unit, length, until in (("seconds", 1, 90), ("minutes", 60, 5400), ("hours", 3600, 172800)):
        if seconds < until:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86400:.3g} days"
