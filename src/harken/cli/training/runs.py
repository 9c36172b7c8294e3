"""`harken runs`: the runs in a folder and how they stand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, examples, format_seconds, print_json, print_table
from harken.cli.messages import logger

if TYPE_CHECKING:
    from harken.run_folders.reading import Run

HEADINGS = ("run", "task", "model", "state", "done", "best validation", "tokens/s", "data wait", "trained", "changed")


@examples("harken runs runs", "harken runs runs --json")
def runs(
    folder: Annotated[Path, typer.Argument(help="Folder with run folders in it, or below.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List runs, the one that changed last first: state, best score, speed and age."""
    from harken.run_folders.reading import find_runs

    listed = find_runs(folder)
    if as_json:
        print_json([run.to_dict() for run in listed])
        return
    if not listed:
        logger.info(f"{folder} holds no runs; harken train RECIPE --out {folder / 'NAME'} makes one")
    if listed:
        print_table(HEADINGS, [row_of(run, folder) for run in listed])


def row_of(run: Run, folder: Path) -> tuple[str, ...]:
    """One line of the table."""
    name = str(run.folder.relative_to(folder)) if run.folder != folder else str(folder)
    best = "" if run.score is None or run.best is None else f"{run.metric} {run.score:.4g} at {run.best['step']:,}"
    rate = run.tokens_per_second
    return (
        name,
        run.task,
        run.model,
        f"{run.state}: {run.problem}" if run.problem else run.state,
        "" if run.done is None else f"{run.done:.0%}",
        best,
        "" if rate is None else f"{rate:,.0f}",
        "" if run.data_wait is None else f"{run.data_wait:.1%}",
        format_seconds(run.seconds),
        f"{format_seconds(max(0.0, time.time() - run.changed))} ago",
    )
