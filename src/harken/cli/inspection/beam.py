"""`harken beam`: the beam of a search as a tree, each score split into its terms, and why the winner won."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import (
    ModelFolder,
    annotation_of,
    examples,
    load_for,
    require_ending,
    show_figure,
    with_signature,
)
from harken.errors import UserError
from harken.tasks.interface import SEARCH_PANEL, search_fields

SEARCH = search_fields()
OPTIONS = {
    "beam": Annotated[int | None, typer.Option(min=1, max=50, help="Live hypotheses. Default: the recipe's.")],
    "out": Annotated[Path | None, typer.Option(help="Also write the figure: beam.html, beam.svg or beam.png.")],
    "prefix": Annotated[str, typer.Option(help="The beginning of the translation.", rich_help_panel=SEARCH_PANEL)],
    "require": Annotated[
        list[str] | None,
        typer.Option(help="A phrase the translation must contain; may be given often.", rich_help_panel=SEARCH_PANEL),
    ],
    **{name: annotation_of(field) for name, field in SEARCH.items()},
}


def beam(model: Path, sentence: str, out: Path | None, **options: Any) -> None:
    """Draw how beam search found a translation: the tree of its beam, and the terms of each score."""
    if not sentence.strip():
        raise UserError("the sentence is empty; give some words in quotes")
    require_ending(out, stem="beam")
    translator = load_for("translate", model)
    figure = translator.beam(sentence, **{name: value for name, value in options.items() if value not in (None, [])})
    show_figure(figure, None, out)


with_signature(
    examples(
        "harken beam runs/demo 'My brother works in a hospital.'",
        "harken beam runs/demo 'My brother works in a hospital.' --beam 3 --length-penalty 0 --out beam.html",
    )(beam),
    {"model": ModelFolder, "sentence": Annotated[str, typer.Argument(help="A sentence in quotes.")], **OPTIONS},
    {**dict.fromkeys(OPTIONS), "prefix": ""},
)
