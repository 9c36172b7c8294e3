"""`harken train`: a recipe in, a model folder out."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Annotated

import typer

from harken.cli import STARTED
from harken.cli.common import Overrides, examples, folder_option, use_of
from harken.cli.messages import logger
from harken.cli.training.new import Pair, RecipeOrData, TargetColumn, Task, TextColumn, recipe_of
from harken.errors import Interrupted
from harken.training.folder import is_follower, launcher, request


@examples(
    "harken train phrasebook-attention --out runs/attention",
    "harken train my.toml --out runs/mine --set train.max_minutes=30 --set data.source=train.en",
    "harken train pairs.tsv --out runs/mine      (data without a recipe: the job is inferred)",
    "harken train pairs.tsv --start runs/opus --mix general.tsv --out runs/mine      (fine-tunes a translator)",
    "harken train reviews.tsv --start runs/bert --out runs/mine      (a classifier on an adopted encoder)",
    "harken train my.toml --out runs/mine --resume      (after Ctrl-C, a crash or a power cut)",
)
def train(
    recipe: RecipeOrData,
    out: Annotated[Path, folder_option("Folder for the model; everything a run leaves behind is in it.")],
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in the folder.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Delete the run in the folder and start over.")] = False,
    accept_changed_data: Annotated[
        bool,
        typer.Option("--accept-changed-data", help="With --resume: go on although data files or \\[data] changed."),
    ] = False,
    task: Task = None,
    text_column: TextColumn = None,
    target_column: TargetColumn = None,
    pair: Pair = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Fine-tune the translator, or the encoder, of this folder on the data."),
    ] = None,
    mix: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="With --start: general pairs to rehearse, so that it does not forget."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a model as a recipe says. Ctrl-C saves a checkpoint and stops; --resume continues from there.

    In place of a recipe, give a file or folder of data: the job is inferred, and the recipe saved beside the run.
    """
    from harken.recipe.files import start_overrides

    overrides = [*(overrides or []), *start_overrides(start, mix)]
    settings = [part for override in overrides for part in ("--set", override)]
    asked = request(out, resume, restart, accept_changed_data)
    quiet = quiet or is_follower()  # rank 0 of torchrun reads the recipe and says what is said
    recipe, others = recipe_of(
        recipe,
        out.parent / f"{out.name}.toml",
        overrides,
        {"task": task, "text": text_column, "target": target_column, "pair": pair},
        (["harken", "train", recipe], ["--out", str(out), *settings]),
        keep=asked.resume,
        replace=asked.restart,
        is_follower=is_follower(),
    )
    from harken.api import train as run

    try:
        model = run(
            recipe,
            out,
            overrides=others,
            resume=resume,
            restart=restart,
            accept_changed_data=accept_changed_data,
            progress=not quiet,
            started=STARTED,
        )
    except KeyboardInterrupt as stop:
        command = [*(launcher() or ["harken"]), "train", recipe, "--out", str(out), *settings]
        number = getattr(stop, "number", signal.SIGINT)
        advice = f"continue with\n  {shlex.join([*command, '--resume'])}"
        raise Interrupted(number, "" if is_follower() else advice) from None
    if not quiet:
        logger.info(
            f"The model is in {out}. Try\n  {use_of(model.recipe.task, out)}\n  harken evaluate {shlex.quote(str(out))}"
        )
