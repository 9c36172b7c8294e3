"""`harken compare`: what differs between runs, beside their scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, examples, print_json, print_table
from harken.cli.messages import logger
from harken.cli.progress import counting


@examples(
    "harken compare runs/attention runs/rnn",
    "harken compare runs/attention runs/rnn --split test      (with a paired test of the outputs)",
)
def compare(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; the first is the baseline.")],
    split: Annotated[
        str | None,
        typer.Option(help="Run this split through each model, keep the outputs and test the differences."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which keys of the recipes differ, the scores and the cost of runs, and paired tests of their outputs.

    Differences are tested by paired bootstrap on every split that both runs have outputs of.
    """
    from harken.api import load
    from harken.run_folders.comparing import compare_runs, write_outputs
    from harken.run_folders.reading import read_run

    runs = [read_run(folder) for folder in folders]
    for run in runs if split is not None and len(runs) > 1 else ():
        with counting(f"{split} through {run.folder}") as tick:
            write_outputs(run, split or "", load, tick)
    comparison = compare_runs(runs)
    if as_json:
        print_json(comparison.to_dict())
        return
    print_table(("recipe", *comparison.names), [(key, *values) for key, values in comparison.keys])
    print_table(("result", *comparison.names), [(name, *values) for name, values in comparison.rows])
    for test in comparison.tests:
        low, high = test["interval"]
        logger.info(
            f"{test['split']}: {test['run']} has {test['metric']} {test['other']:.2f}, {test['against']} has "
            f"{test['first']:.2f}: difference {test['difference']:+.2f} (95% interval {low:+.2f} to {high:+.2f}, "
            f"p = {test['p']:.4f}, paired bootstrap; {test['signature']})"
        )
    if not comparison.keys:
        logger.info("The recipes are equal")
    if not comparison.tests:
        logger.info("No outputs to test: --split test runs the test set through each model and keeps the outputs")
