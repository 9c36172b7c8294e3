"""`harken export`: a translator for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from harken.cli.common import ModelFolder, examples, folder_option, load_for
from harken.cli.messages import logger


@examples(
    "harken export runs/demo --to onnx --out runs/demo-onnx",
    "harken export runs/demo --to ctranslate2 --out runs/demo-ct2",
    "harken export runs/opus --format huggingface --out runs/opus-hf",
    "harken export runs/opus --format argos --out runs/opus-argos",
    "harken export runs/legal --format harken --out runs/legal-whole      (merges an adapter into its base)",
)
def export(
    model: ModelFolder,
    to: Annotated[
        Literal["onnx", "ctranslate2", "huggingface", "argos", "harken"],
        typer.Option(
            "--to",
            "--format",
            help=(
                "onnx: encoder and decoder step; ctranslate2, huggingface, argos: Transformers for these packages; "
                "harken: a model folder that needs no other, as an adapter does its base."
            ),
        ),
    ],
    out: Annotated[Path, folder_option("An empty or a new folder.")],
) -> None:
    """Write a translator in another format: ONNX, CTranslate2, transformers, Argos, or a folder that stands alone."""
    from harken.export import export_model

    export_model(load_for("translate", model), to, out)
    logger.info(f"Wrote {out}")
