"""`harken new`: three questions, and a recipe for your data. `harken train DATA` and `harken check DATA` use it too."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from harken.cli.common import complete_recipe, examples
from harken.cli.messages import logger
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.recipe.infer import Undecided

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


Pair = Annotated[
    str | None, typer.Option(metavar="A-B", help="With data in several languages: two of them, source first: en-de.")
]
MOST_QUESTIONS = 2  # which job, which column
T = TypeVar("T")


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
    pair: Pair = None,
    out: Annotated[Path | None, typer.Option(help="The recipe to write; by default named after the data.")] = None,
) -> None:
    """Write a recipe for your data. Asks where the data is, which job it is for, and how long training may take."""
    from harken.recipe.infer import MINUTES, infer, write_recipe

    options = {"task": task, "text": text_column, "target": target_column, "pair": pair}
    try:
        data = data or typer.prompt("Where is the data (a file or a folder)?", err=True, prompt_suffix=" ")
        if task is None:
            options["task"] = ask_task(data, options)
        inferred = decide(partial(infer, data), options, ["harken", "new", data], ["--out", str(out)] if out else [])
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


def ask_task(data: str, options: Mapping[str, str | None]) -> str:
    """The job, with the one that the data looks like as the default."""
    from harken.recipe.infer import Undecided, infer
    from harken.registry import TASKS

    likely = None
    try:
        inferred = infer(data, **options)
        likely = inferred.task
        logger.info(f"{data}: {inferred.reason}")
    except UserError as problem:
        if not Path(data).expanduser().exists():
            raise
        if isinstance(problem, Undecided):
            likely = problem.choices[0].get("task")
        logger.info(f"{problem}")
    answer: str = typer.prompt(f"Which job ({', '.join(TASKS.names())})?", default=likely, err=True, prompt_suffix=" ")
    return answer.strip()


def decide(make: Callable[..., T], options: Mapping[str, str | None], start: Sequence[str], end: Sequence[str]) -> T:
    """Call `make(**options)`; what it finds undecided is asked in a terminal, in at most two questions.

    Args:
        start, end: the command, without options on data, for the message elsewhere.

    Raises:
        Undecided: the answer is to be given by options; with the complete command.
    """
    from harken.recipe.infer import Undecided

    chosen = {key: value for key, value in options.items() if value is not None}
    for question in range(MOST_QUESTIONS + 1):
        try:
            return make(**chosen)
        except Undecided as undecided:
            if question == MOST_QUESTIONS or not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise undecided.within(start, chosen, end) from None
            chosen |= ask(undecided)
    raise AssertionError("unreachable")


def ask(undecided: Undecided) -> Mapping[str, str]:
    """Let the user choose by number; Enter takes the first.

    Raises:
        KeyboardInterrupt: Ctrl-C, or the end of the input.
    """
    labels = undecided.labels
    logger.info(
        "\n".join([undecided.problem, *(f"  {number}  {label}" for number, label in enumerate(labels, start=1))])
    )
    while True:
        try:
            answer = typer.prompt(undecided.question, default="1", err=True, prompt_suffix=" ").strip()
        except typer.Abort:
            raise KeyboardInterrupt from None
        if answer in labels:
            return undecided.choices[labels.index(answer)]
        if answer.isdecimal() and 0 < int(answer) <= len(labels):
            return undecided.choices[int(answer) - 1]
        logger.info(f"{answer!r} is none of them; give a number from 1 to {len(labels)}")


def recipe_of(
    given: str,
    path: Path,
    overrides: Sequence[str],
    options: Mapping[str, str | None],
    command: tuple[Sequence[str], Sequence[str]],
    *,
    keep: bool = False,
    replace: bool = False,
    is_follower: bool = False,
) -> tuple[str, Sequence[str]]:
    """The recipe that was given; or that of data, inferred, shown and saved (`harken.recipe.infer.recipe_file`).

    Args:
        given: a recipe, or data.
        path: where the inferred recipe is saved.
        options: on data: task, text, target and pair.
        command: its beginning and its end, for a message that names options.
        keep, replace: what becomes of a recipe that is there.
        is_follower: rank 0 of a distributed run infers the recipe, and no other.

    Returns:
        The recipe, and the overrides that are not part of it yet.

    Raises:
        UserError: an option on data was given beside a recipe.
    """
    from harken.recipe.infer import is_data, recipe_file
    from harken.recipe.infer.questions import FLAGS

    if is_data(given) and not is_follower:
        make = partial(recipe_file, given, path, overrides, keep=keep, replace=replace)
        inferred, note, others = decide(make, options, *command)
        if note:
            logger.info(note)
        return str(inferred), others
    for key, value in options.items():
        if value is not None:
            raise UserError(f"{FLAGS[key]} is for data in place of a recipe; write it into the recipe")
    return given, overrides
