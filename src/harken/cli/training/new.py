"""`harken new`: three questions, and a recipe for your data. `harken train DATA` and `harken check DATA` use it too."""

from __future__ import annotations

import csv
import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import complete_recipe, tell
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.recipe.infer import Inferred

MOST_TOML = 100_000  # bytes that are read to tell a recipe with another ending from data

RecipeOrData = Annotated[
    str,
    typer.Argument(
        metavar="RECIPE",
        help="A recipe that ships (`harken recipes` lists them), a TOML file, or data to infer one from.",
        autocompletion=complete_recipe,
    ),
]
Task = Annotated[
    str | None, typer.Option(metavar="JOB", help="With data in place of a recipe: the job, such as classify.")
]
TextColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="With a table: the column to read (texts, sources, files).")
]
TargetColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="With a table: the column to predict (labels, translations, numbers)."),
]


def new(
    data: Annotated[
        str | None, typer.Argument(help="A file or folder of data; asked for where it is not given.")
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="JOB", help="The job; asked for, with the likely one.")] = None,
    minutes: Annotated[
        float | None, typer.Option(min=0.01, help="How long training may take; asked for where it is not given.")
    ] = None,
    text_column: TextColumn = None,
    target_column: TargetColumn = None,
    pair: Annotated[str | None, typer.Option(help="Of a folder with files train.LANG: two languages, en-de.")] = None,
    out: Annotated[Path | None, typer.Option(help="The recipe to write; by default named after the data.")] = None,
) -> None:
    """Write a recipe for your data. Asks where the data is, which job it is for, and how long training may take."""
    from harken.recipe.infer import MINUTES, infer

    try:
        data = data or typer.prompt("Where is the data (a file or a folder)?", err=True, prompt_suffix=" ")
        if task is None:
            task = ask_task(data, text_column, target_column, pair)
        found = infer(data, task=task, text=text_column, target=target_column, pair=pair)
        if minutes is None:
            minutes = typer.prompt(
                "How many minutes may training take?", default=MINUTES, type=float, err=True, prompt_suffix=" "
            )
    except typer.Abort:
        raise UserError("harken new needs an answer; give DATA, --task and --minutes instead") from None
    if not minutes > 0:
        raise UserError(f"training cannot take {minutes:g} minutes; give a number above 0")
    stem = Path(data).resolve().name.partition(".")[0]
    place = write_recipe(found, out or Path(f"{stem}.toml"), minutes)
    tell(f"Wrote {place}. Try\n  harken check {place}\n  harken train {place} --out runs/{stem}")


def ask_task(data: str, text: str | None, target: str | None, pair: str | None) -> str:
    """The job, with the one that the data looks like as the default."""
    from harken.recipe.infer import infer
    from harken.registry import JOBS

    likely = None
    try:
        found = infer(data, text=text, target=target, pair=pair)
        likely = found.task
        tell(f"{data}: {found.reason}")
    except UserError as problem:
        if not Path(data).expanduser().exists():
            raise
        tell(f"{problem}")
    answer: str = typer.prompt(f"Which job ({', '.join(JOBS)})?", default=likely, err=True, prompt_suffix=" ")
    return answer.strip()


def write_recipe(found: Inferred, place: Path, minutes: float, replace: bool = False) -> Path:
    """Write an inferred recipe, and the table that goes with it; an equal recipe may be there already.

    Raises:
        UserError: another file is there.
    """
    from harken.files import atomic_write

    content = ""
    if found.rows is not None:
        table = place.with_suffix(".tsv").resolve()
        names = ("audio", "text") if found.task == "transcribe" else ("image", "caption")
        rows = io.StringIO()
        csv.writer(rows, delimiter="\t", lineterminator="\n").writerows([names, *found.rows])
        content = rows.getvalue()
        found.data["train"] = str(table)
    text = found.to_toml(minutes)
    if place.exists() and not replace and place.read_text(encoding="utf-8", errors="replace") != text:
        raise UserError(
            f"{place} exists and differs from the recipe for this data; train with it, give another --out, or replace "
            "it (harken train --restart)"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    if content:
        atomic_write(table, content)
    atomic_write(place, text)
    return place


def is_data(name: str) -> bool:
    """Whether an argument names data rather than a recipe: it exists, and is neither TOML nor a model folder.

    Raises:
        UserError: a file of /proc.
    """
    from harken.files import refuse_kernel_file
    from harken.recipe import recipe_names

    try:
        path = Path(name).expanduser()
        if name in recipe_names() or path.suffix == ".toml" or not (path.is_file() or path.is_dir()):
            return False  # pipes and devices are not read twice
    except (OSError, RuntimeError, ValueError):  # a name that no file can have
        return False
    if path.is_dir():
        return not (path / "recipe.toml").is_file()
    refuse_kernel_file(path)
    try:
        with path.open("rb") as stream:
            return not tomllib.loads(stream.read(MOST_TOML).decode())
    except (OSError, ValueError, RecursionError):  # neither text nor TOML
        return True


def recipe_of(
    data: str,
    place: Path,
    task: str | None,
    text: str | None,
    target: str | None,
    overrides: Sequence[str],
    *,
    keep: bool = False,
    replace: bool = False,
) -> str:
    """Infer a recipe from data, show it, save it, and return its path.

    Args:
        place: where the recipe is saved.
        keep: take the recipe that is there already, as a resumed run does.
        replace: overwrite what is there.
    """
    from harken.recipe.infer import MINUTES, infer

    if keep and place.is_file():
        return str(place)
    pair = next((value.partition("=")[2] for value in overrides if value.startswith("data.pair=")), None)
    found = infer(data, task=task, text=text, target=target, pair=pair)
    write_recipe(found, place, MINUTES, replace)
    tell(f"{data}: {found.reason}\n\n{place.read_text(encoding='utf-8')}\nThe recipe is in {place}")
    return str(place)


def refuse_column_options(**given: str | None) -> None:
    """Options on data are for data.

    Raises:
        UserError: one was given beside a recipe.
    """
    for name, value in given.items():
        if value is not None:
            raise UserError(f"--{name.replace('_', '-')} is for data in place of a recipe; write it into the recipe")
