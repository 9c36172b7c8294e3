"""`harken attention`: what a model attends to, of a translator the alignment map, in the terminal or as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from harken.cli.common import ENDINGS, Beam, ModelFolder, accepted_options, load_with_job, require_ending, save_figure
from harken.errors import UserError


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
        bool, typer.Option("--layers", help="Every layer and head, over subword pieces (--out: .html).")
    ] = False,
    beam: Beam = None,
) -> None:
    """Draw what a model attends to: of a translator the alignment map, source across, target down."""
    if not sentence.strip():
        raise UserError("the input is empty; give some words in quotes, or the path of a file")
    require_ending(out, ENDINGS[:1] if layers else ENDINGS, "map")
    loaded, job = load_with_job(model)
    look: Any = job.look
    figure = look(loaded, sentence, **accepted_options(job, model, {"target": target, "layers": layers, "beam": beam}))
    print(figure.to_terminal())
    save_figure(figure, out)
