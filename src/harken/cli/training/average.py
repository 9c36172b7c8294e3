"""`harken average`: one model from the weights of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import examples, folder_option
from harken.cli.jobs.translate import weights_of
from harken.cli.messages import logger


@examples(
    "harken average runs/first runs/second --out runs/average",
    "harken average runs/first runs/second --weights 2,1 --out runs/average",
)
def average(
    models: Annotated[
        list[Path], typer.Argument(metavar="MODEL MODEL...", help="Model folders that descend from one run.")
    ],
    out: Annotated[Path, folder_option("An empty or a new folder.")],
    weights: Annotated[str | None, typer.Option(help="Weights of the models, such as 2,1. Default: equal.")] = None,
) -> None:
    """Average the weights of models of one network, such as a run that was continued or fine-tuned in several ways."""
    from harken.tasks.averaging import UNRELATED, average_models

    cosine = average_models(models, out, weights_of(weights))
    if cosine < UNRELATED:
        logger.info(
            f"warning: the weights of these models hardly agree (mean cosine {cosine:.2f}), so they were trained apart "
            "and their average is of no use; harken translate M1 M2 FILE averages their outputs"
        )
    logger.info(f"Wrote {out}")
