"""`harken beam`: the beam of a search as a tree, each score split into its terms, and why the winner won."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import ModelFolder, examples, load_for, require_ending, save_figure
from harken.cli.search_options import PANEL, with_search_options
from harken.errors import UserError


@examples(
    "harken beam runs/demo 'the black cat sleeps'",
    "harken beam runs/demo 'the black cat sleeps' --beam 3 --length-penalty 0 --out beam.html",
)
@with_search_options
def beam(
    model: ModelFolder,
    sentence: Annotated[str, typer.Argument(help="A sentence in quotes.")],
    width: Annotated[
        int | None, typer.Option("--beam", min=1, max=50, help="Live hypotheses. Default: the recipe's.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figure: beam.html, beam.svg or beam.png.")] = None,
    prefix: Annotated[str, typer.Option(help="The beginning of the translation.", rich_help_panel=PANEL)] = "",
    require: Annotated[
        list[str] | None,
        typer.Option(help="A phrase the translation must contain; may be given often.", rich_help_panel=PANEL),
    ] = None,
    search: dict[str, Any] | None = None,
) -> None:
    """Draw how beam search found a translation: the tree of its beam, and the terms of each score."""
    if not sentence.strip():
        raise UserError("the sentence is empty; give some words in quotes")
    require_ending(out, stem="beam")
    translator = load_for("translate", model)
    figure = translator.beam(sentence, beam=width, prefix=prefix, require=require or [], **(search or {}))
    print(figure.to_terminal())
    save_figure(figure, out)
