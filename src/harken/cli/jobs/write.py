"""`harken write`: a text in, handwriting out; or drawings from nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import (
    MAX_COUNT,
    MAX_SEED,
    AsJson,
    ModelFolder,
    counting,
    load_for,
    require_ending,
    save_figure,
    tell,
)


def write(
    model: ModelFolder,
    text: Annotated[
        str | None, typer.Argument(help="What to write, in quotes; left out where the model draws from nothing.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="How many drawings, each from its own random numbers.")
    ] = 1,
    bias: Annotated[
        float | None,
        typer.Option(min=0.0, max=1000.0, help="0: as varied as the data; more: neater. Default: the recipe's."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The same seed gives the same strokes.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Also write the picture: .svg, .png or .html.")] = None,
    as_json: AsJson = False,
) -> None:
    """Write by hand: strokes drawn from a model, point by point."""
    require_ending(out, stem="line")
    penman = load_for("handwriting", model)
    with counting("drawings", total=count) as tick:
        drawings = penman.write([text] * count, bias=bias, seed=seed, progress=tick)
    from harken.inspection.pictures.drawings import InkPicture

    picture = InkPicture([one.strokes() for one in drawings], [one.text or "" for one in drawings])
    if as_json:
        for one in drawings:
            print(json.dumps(one.to_json(), ensure_ascii=False))
    else:
        print(picture.to_terminal())
    save_figure(picture, out)
    unfinished = sum(not one.finished for one in drawings)
    if unfinished:
        tell(f"{unfinished} of {count} had no end after {penman.recipe.sampling.max_points} points and were cut off")
