"""`harken attention`: what a model attends to, of a translator the alignment map, in the terminal or as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import (
    ENDINGS,
    AsJson,
    Beam,
    ModelFolder,
    accepted_options,
    examples,
    load_with_job,
    require_ending,
    show_figure,
)
from harken.cli.jobs.translate import unknown_note
from harken.cli.messages import logger
from harken.errors import UserError


@examples(
    "harken attention runs/demo 'My brother works in a hospital.'",
    "harken attention runs/demo 'My brother works in a hospital.' --out map.html",
    "harken attention runs/demo 'My brother works in a hospital.' --target 'Mon frère travaille dans un hôpital.'",
)
def attention(
    model: ModelFolder,
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="INPUT", help="A sentence in quotes; for jobs that read signals or images, the path of a file."
        ),
    ],
    target: Annotated[
        str | None, typer.Option(help="Read this translation instead of the model's own (teacher forcing).")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the figure: map.html, map.svg or map.png.")] = None,
    layers: Annotated[
        bool,
        typer.Option("--layers", help="Cross- and self-attention of every layer and head, over pieces (--out: .html)."),
    ] = False,
    beam: Beam = None,
    as_json: AsJson = False,
) -> None:
    """Draw what a model attends to: of a translator the alignment map, source across, target down."""
    if not sentence.strip():
        raise UserError("the input is empty; give some words in quotes, or the path of a file")
    require_ending(out, ENDINGS[:1] if layers else ENDINGS, "map")
    loaded, job = load_with_job(model)
    draw: Any = job.attention_figure
    figure = draw(loaded, sentence, **accepted_options(job, model, {"target": target, "layers": layers, "beam": beam}))
    show_figure(figure, figure.to_dict() if as_json else None, out)
    translation = getattr(figure, "translation", None)
    if translation is not None and translation.unknown:
        logger.info(unknown_note(translation.unknown_words))
