"""`harken embed`: word vectors trained, looked at, tested, drawn and converted; one function for each of its verbs."""

from __future__ import annotations

import typer

from harken.cli.embed.context import context
from harken.cli.embed.train import train
from harken.cli.embed.vectors import analogy, convert, evaluate, neighbors, plot
from harken.cli.predict import add_commands

embed = typer.Typer(
    no_args_is_help=True,
    help="Word vectors: train, look, test, draw, convert.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Begin with: harken embed train TEXT --out runs/words, then: harken embed neighbors runs/words WORD",
)
add_commands(embed, train, neighbors, analogy, context, evaluate, plot, convert)
