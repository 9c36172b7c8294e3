"""`harken look`: what a file or folder holds, which job follows, and the command that trains it."""

from __future__ import annotations

from typing import Annotated

import typer

from harken.cli.common import AsJson, examples, print_json, print_table


@examples("harken look reviews.csv", "harken look corpus/ --json")
def look(data: Annotated[str, typer.Argument(help="A file or folder of data.")], as_json: AsJson = False) -> None:
    """Look at data before training: columns, kinds, languages, lengths, labels, duplicates, the job and its command."""
    from harken.recipe.look import HEADINGS
    from harken.recipe.look import look as run

    report = run(data)
    if as_json:
        print_json(report.to_dict())
        return
    if report.columns:
        print_table(HEADINGS, report.column_rows)
    print_table(("", ""), report.facts)
    print(report.command)  # on a line of its own, which no terminal breaks up for a table
