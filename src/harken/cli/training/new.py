"""`harken new`: three questions, and a recipe for your data. `harken train DATA` and `harken check DATA` use it too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import complete_recipe, examples
from harken.cli.messages import logger
from harken.errors import UserError

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


@examples(
    "harken new      (asks three questions)",
    "harken new news.csv --task classify --target-column topic --minutes 10 --out news.toml",
)
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
    from harken.recipe.infer import MINUTES, infer, write_recipe

    try:
        data = data or typer.prompt("Where is the data (a file or a folder)?", err=True, prompt_suffix=" ")
        if task is None:
            task = ask_task(data, text_column, target_column, pair)
        inferred = infer(data, task=task, text=text_column, target=target_column, pair=pair)
        if minutes is None:
            minutes = typer.prompt(
                "How many minutes may training take?", default=MINUTES, type=float, err=True, prompt_suffix=" "
            )
    except typer.Abort:
        raise UserError("harken new needs an answer; give DATA, --task and --minutes instead") from None
    if not minutes > 0:
        raise UserError(f"training cannot take {minutes:g} minutes; give a number above 0")
    stem = Path(data).resolve().name.partition(".")[0]
    path = write_recipe(inferred, out or Path(f"{stem}.toml"), minutes)
    logger.info(f"Wrote {path}. Try\n  harken check {path}\n  harken train {path} --out runs/{stem}")


def ask_task(data: str, text: str | None, target: str | None, pair: str | None) -> str:
    """The job, with the one that the data looks like as the default."""
    from harken.recipe.infer import infer
    from harken.registry import JOBS

    likely = None
    try:
        inferred = infer(data, text=text, target=target, pair=pair)
        likely = inferred.task
        logger.info(f"{data}: {inferred.reason}")
    except UserError as problem:
        if not Path(data).expanduser().exists():
            raise
        logger.info(f"{problem}")
    answer: str = typer.prompt(f"Which job ({', '.join(JOBS)})?", default=likely, err=True, prompt_suffix=" ")
    return answer.strip()


def recipe_of(
    given: str,
    path: Path,
    overrides: Sequence[str] | None,
    *,
    task: str | None,
    text: str | None,
    target: str | None,
    keep: bool = False,
    replace: bool = False,
    is_follower: bool = False,
) -> str:
    """The recipe that was given; or that of data, inferred, shown and saved (`harken.recipe.infer.recipe_file`).

    Args:
        given: a recipe, or data.
        place: where the inferred recipe is saved.
        task, text, target: options on data.
        keep, replace: what becomes of a recipe that is there.
        is_follower: rank 0 of a distributed run infers the recipe, and no other.

    Raises:
        UserError: an option on data was given beside a recipe.
    """
    from harken.recipe.infer import is_data, recipe_file

    columns = {"task": task, "text": text, "target": target}
    if is_data(given) and not is_follower:
        inferred, note = recipe_file(given, path, overrides or [], keep=keep, replace=replace, **columns)
        if note:
            logger.info(note)
        return str(inferred)
    for flag, value in zip(("--task", "--text-column", "--target-column"), columns.values(), strict=True):
        if value is not None:
            raise UserError(f"{flag} is for data in place of a recipe; write it into the recipe")
    return given
