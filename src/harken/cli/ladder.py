"""`harken ladder`: the same recipe with one network after another, and one table."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, Overrides, RecipeName, output_folder, print_table, tell

if TYPE_CHECKING:
    from harken.lab.ladder import Result

HEADINGS = ("rung", "", "BLEU", "AER", "parameters", "FLOPs", "seconds", "tokens/s")


def ladder(
    recipe: RecipeName,
    out: Annotated[
        Path,
        typer.Option(
            parser=output_folder,
            metavar="DIRECTORY",
            help="Folder for the models, a folder each, ladder.json and ladder.svg.",
        ),
    ],
    rungs: Annotated[
        str | None, typer.Option(help="Only these, with commas: rnn,lstm,attention,transformer. Default: all.")
    ] = None,
    overrides: Overrides = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train one recipe up the ladder, from a vanilla RNN to a Transformer, and compare what each gives and costs.

    Every rung has about as many parameters as the recipe's own model, and the recipe's own budget. Ctrl-C stops; the
    same command goes on.
    """
    from harken.lab.ladder import climb

    names = None if rungs is None else [name.strip() for name in rungs.split(",") if name.strip()]
    try:
        results = climb(
            recipe,
            out,
            rungs=names,
            overrides=overrides or [],
            progress=not quiet,
            tell=(lambda line: None) if quiet else tell,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("give the same command again to go on from here") from None
    if as_json:
        print(json.dumps([asdict(result) for result in results], ensure_ascii=False))
        return
    print_table(HEADINGS, [row(result) for result in results])
    from harken.lab.ladder_picture import LadderPicture

    picture = LadderPicture(results).save(out / "ladder.svg")
    if not quiet:
        folder = shlex.quote(str(out))
        tell(f"The models are in {out}, the numbers in {out / 'ladder.json'}, a picture in {picture}. Try")
        tell(f"  harken translate {folder}/{results[-1].rung}")


def row(result: Result) -> tuple[str, ...]:
    """One line of the table."""
    return (
        result.rung,
        result.shows,
        f"{result.bleu:.2f}",
        "-" if result.alignment_error is None else f"{result.alignment_error:.3f}",
        f"{result.parameters:,}",
        f"{result.flops:.2g}",
        f"{result.seconds:,.0f}",
        f"{result.tokens_per_second:,.0f}",
    )
