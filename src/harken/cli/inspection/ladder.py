"""`harken ladder`: the same recipe with one network after another, and one table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, Overrides, RecipeName, examples, folder_option, print_json, print_table
from harken.cli.messages import logger

if TYPE_CHECKING:
    from harken.lab.ladder import Result

HEADINGS = ("rung", "network", "BLEU", "AER", "parameters", "FLOPs", "seconds", "tokens/s", "learning", "converged")
LEVELS = "▁▂▃▄▅▆▇█"


@examples(
    "harken ladder      (LSTM, LSTM with attention, Transformer on the phrasebook: about ten minutes)",
    "harken ladder my.toml --out runs/ladder --rungs lstm,attention,transformer --set train.max_minutes=3",
)
def ladder(
    recipe: RecipeName = "phrasebook-ladder",
    out: Annotated[Path, folder_option("Folder for the models, a folder each, ladder.json and ladder.svg.")] = Path(
        "runs/ladder"
    ),
    rungs: Annotated[
        str | None,
        typer.Option(
            help="Only these, with commas: rnn,lstm,attention,transformer. Default: all; of phrasebook-ladder three."
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train one recipe up the ladder, from a vanilla RNN to a Transformer, and compare what each gives and costs.

    Every rung has about as many parameters as the recipe's own model, and the recipe's own budget. Without a recipe:
    phrasebook-ladder, three rungs in about ten minutes on two idle cores. Ctrl-C stops; the same command goes on.
    """
    from harken.lab.ladder import PRESET, PRESET_RUNGS, climb

    names = None if rungs is None else [name.strip() for name in rungs.split(",") if name.strip()]
    if names is None and recipe == PRESET:
        names = list(PRESET_RUNGS)
    try:
        with redirect_stdout(sys.stderr):  # lines of training are no results
            results = climb(
                recipe,
                out,
                rungs=names,
                overrides=overrides or [],
                progress=not quiet,
                tell=(lambda line: None) if quiet else logger.info,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("give the same command again to go on from here") from None
    if as_json:
        from harken.inspection.figure.values import plain

        values = [{**asdict(result), "converged": result.converged, "gain": result.gain} for result in results]
        print_json(plain(values))
        return
    rows = [row(result) for result in results]
    print_table(HEADINGS, rows, always_named=True)
    from harken.lab.ladder_picture import LadderPicture

    picture = LadderPicture(results).save(out / "ladder.svg")
    if not quiet:
        folder = shlex.quote(str(out))
        logger.info(f"The models are in {out}, the numbers in {out / 'ladder.json'}, a picture in {picture}. Try")
        logger.info(f"  harken translate {folder}/{results[-1].rung}")
    late = [result.rung for result in results if result.converged is False]
    if late:
        logger.info(
            f"Not converged: {', '.join(late)}. Their scores still rose at the end, so their order may change with a "
            "larger budget: add --set train.max_steps=N, or train.max_minutes, and a new --out"
        )


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
        sparkline([entry[2] for entry in result.curve]),
        {None: "?", True: "yes", False: f"no, {result.gain:+.1f} late"}[result.converged],
    )


def sparkline(values: Sequence[float]) -> str:
    """BLEU from 0 to 100 as bars.

    >>> sparkline([0.0, 50.0, 100.0])
    '▁▅█'
    """
    return "".join(LEVELS[round(min(max(value, 0.0), 100.0) / 100 * (len(LEVELS) - 1))] for value in values)
