"""`harken check`: what a recipe would do, before it does it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from harken.cli.common import AsJson, Overrides, examples, format_bytes, format_seconds, print_json, print_table
from harken.cli.messages import logger
from harken.cli.training.new import Pair, RecipeOrData, TargetColumn, Task, TextColumn, recipe_of


@examples(
    "harken check phrasebook-transformer",
    "harken check multi30k-transformer --set data.dir=DIR --set data.pair=en-de",
)
def check(
    recipe: RecipeOrData,
    overrides: Overrides = None,
    measure: Annotated[
        bool, typer.Option("--measure/--no-measure", help="Whether to run a few updates, for the time and the memory.")
    ] = True,
    task: Task = None,
    text_column: TextColumn = None,
    target_column: TargetColumn = None,
    pair: Pair = None,
    as_json: AsJson = False,
) -> None:
    """Read a recipe's data, build its model and measure a few updates: counts, size, memory and time, no training."""
    from harken.checking import check as run
    from harken.recipe.errors import written

    with TemporaryDirectory(prefix="harken-") as folder:
        path = Path(folder) / "recipe.toml"
        options = {"task": task, "text": text_column, "target": target_column, "pair": pair}
        chosen, others = recipe_of(recipe, path, overrides or [], options, (["harken", "check", recipe], []))
        with steps() as progress:
            report = run(chosen, others, measure=measure, progress=progress)
    if as_json:
        print_json(report.to_dict())
        return
    parts = ", ".join(f"{part} {count:,}" for part, count in report.parts.items() if count)
    rows = [
        ("recipe", f"{recipe} is valid"),
        ("data", report.corpus),
        *report.facts.items(),
        (
            "epoch",
            f"{report.updates_per_epoch:,.0f} updates, {report.tokens_per_epoch:,} targets (tokens, labels or steps)",
        ),
        ("parameters", f"{report.parameters:,} ({parts})"),
        ("cost", f"{report.flops_per_target_token / 1e6:,.1f} MFLOP for each target"),
    ]
    if report.speed is not None and report.updates is not None and report.seconds is not None:
        train = report.recipe.train
        rate = report.speed.tokens_per_update / report.speed.seconds_per_update
        machine = f"{train.device}, {train.precision}, {train.workers} process{'es' * (train.workers != 1)}"
        rows += [
            ("memory", f"about {format_bytes(report.memory_bytes or 0)} at the peak"),
            (
                "speed",
                f"{report.speed.seconds_per_update:.3g} s an update, {rate:,.0f} targets/s, "
                f"{report.speed.seconds_per_validation:.2g} s a validation ({machine})",
            ),
            ("run", f"about {report.updates:,} updates, {report.epochs:,.1f} epochs"),
            ("time", f"about {format_seconds(report.seconds)} on this machine as busy as it is now"),
        ]
    rows += [("plan", f"{chosen.key} = {written(chosen.value)}: {chosen.reason}") for chosen in report.decisions]
    print_table(("", ""), [*rows, *(("note", note) for note in report.notes)])


@contextmanager
def steps() -> Iterator[Callable[[str], None]]:
    """Says on stderr what is being done: a live line at a terminal, plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield lambda what: logger.info(f"{what} ...")
        return
    from rich.console import Console

    with Console(stderr=True).status("reading the recipe") as status:
        yield lambda what: status.update(what)
