"""`harken plot`: the curves of one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, examples, print_json, require_ending, save_figure
from harken.cli.messages import logger


@examples("harken plot runs/attention runs/rnn", "harken plot runs/* --x minutes --out curves.html")
def plot(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, running ones too.")],
    axis: Annotated[str, typer.Option("--x", help="What the curves run over: steps, minutes or tokens.")] = "steps",
    out: Annotated[Path | None, typer.Option(help="Write the figure: .html, .svg or .png.")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw loss, score, learning rate and speed of runs in one figure: in the terminal, or into a file."""
    require_ending(out)
    from harken.run_folders.curves import RunCurves
    from harken.run_folders.reading import read_run

    runs = [read_run(folder) for folder in folders]
    picture = RunCurves(runs, axis)
    for run in runs:
        if not run.entries:
            logger.info(f"note: {run.folder} has no entries yet and is left out")
    save_figure(picture, out)
    if as_json:
        print_json(picture.to_dict())
    elif out is None:
        print(picture)
