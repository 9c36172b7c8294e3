"""`harken table2`: BLEU against training FLOPs of families of networks on one data set."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, Overrides, examples, folder_option, print_json, print_table
from harken.cli.messages import logger
from harken.errors import UserError


@examples(
    "harken table2 --source train.en --target train.de --dev-source dev.en --dev-target dev.de --jobs 6",
    "harken table2 --source train.en --target train.de --families lstm-attention,transformer-base --budgets 1e14,3e14",
    "harken table2 --out runs/table2 --render      (the table and the figures of what is recorded)",
)
def table2(
    source: Annotated[Path | None, typer.Option(help="Training text, the source side.")] = None,
    target: Annotated[Path | None, typer.Option(help="Training text, the target side.")] = None,
    dev_source: Annotated[
        Path | None, typer.Option(help="Development set: its first half is chosen by, the second is reported.")
    ] = None,
    dev_target: Annotated[Path | None, typer.Option(help="Its target side. Default: held out from training.")] = None,
    out: Annotated[Path, folder_option("Folder for runs, record, table and figures.")] = Path("runs/table2"),
    budgets: Annotated[str, typer.Option(help="FLOPs of training, with commas.")] = "1e15,3e15,1e16",
    families: Annotated[
        str | None, typer.Option(help="Only these, with commas, such as lstm-attention,transformer-base. Default: all.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of every row.")] = 1,
    trials: Annotated[
        int, typer.Option(min=1, help="Settings of learning rate and dropout for every family, at the least budget.")
    ] = 2,
    ensemble: Annotated[
        str, typer.Option(metavar="FAMILY", help="Family of which three seeds are also scored together.")
    ] = "transformer-base",
    jobs: Annotated[int, typer.Option(min=1, max=1024, help="Runs at once, each with its share of the cores.")] = 1,
    seconds: Annotated[float | None, typer.Option(min=1, help="Stop after so long; the same command goes on.")] = None,
    render: Annotated[bool, typer.Option("--render", help="Train nothing: draw what is recorded.")] = False,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Train families of networks at equal budgets of counted FLOPs: BLEU, cost, and a test against Transformer base.

    What is done is in DIRECTORY/record.jsonl and not done again. Ctrl-C stops; the same command goes on.
    """
    from harken.lab.table2 import HELD_OUT, Table2, divide_dev, families_named
    from harken.lab.table2_report import Report

    chosen = families_named(None if families is None else [name.strip() for name in families.split(",")])
    try:
        numbers = [float(budget) for budget in budgets.split(",")]
    except ValueError:
        raise UserError(f"--budgets {budgets} are no numbers; write FLOPs with commas, such as 1e15,3e15") from None
    given = list(overrides or [])
    if source is not None and target is not None:
        given += [f"data.source={source}", f"data.target={target}", f"data.prepared={out / 'prepared'}"]
        if dev_source is not None and dev_target is not None:
            given += divide_dev(dev_source, dev_target, out / "dev")
        else:
            given += [f"data.valid_size={HELD_OUT}", f"data.test_size={HELD_OUT}"]
    table = Table2(
        out, overrides=given, families=chosen, budgets=numbers, seeds=seeds, trials=trials, ensemble=ensemble
    )
    if not render:
        with redirect_stdout(sys.stderr):
            table.run(jobs, seconds, logger.info)
    report = Report(table)
    if as_json:
        print_json(report.to_dict())
    else:
        print_table(report.HEADINGS, report.cells(), always_named=True)
    for path in report.save():
        logger.info(f"Wrote {path}")
