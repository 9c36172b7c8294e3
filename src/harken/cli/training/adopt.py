"""`harken adopt`: a pretrained model of others as a model folder."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import examples, folder_option, use_of
from harken.cli.messages import logger


@examples("harken adopt opus-mt-en-fr --out runs/opus", "harken adopt nllb --out runs/nllb --pair eng_Latn-fra_Latn")
def adopt(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder in Hugging Face's format.")],
    out: Annotated[Path, folder_option("A new or an empty folder.")],
    pair: Annotated[
        str | None, typer.Option(metavar="SOURCE-TARGET", help="Languages of a multilingual model, such as en-fr.")
    ] = None,
) -> None:
    """Make a model folder of a model in Hugging Face's format: Marian, T5, BART, mBART, M2M-100, NLLB, GPT-2,
    BERT, RoBERTa, DistilBERT.

    Nothing is downloaded, and no pickle is opened: the folder needs config.json, model.safetensors and the files of its
    tokenizer.
    """
    from harken.adopt import adopt as adopt_folder

    model = adopt_folder(folder, out, pair)
    logger.info(
        f"The model is in {out}. Try\n  {use_of(model.recipe.task, out)}\n  harken serve {shlex.quote(str(out))}"
    )
