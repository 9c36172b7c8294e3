"""`harken regress`: a number for every line of text, or for every signal of a file.

plain      number                                   one line for each example
--json     {"example": ..., "value": ...}           the text, or the number of a signal counted from 0
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import (
    AsJson,
    FileFormat,
    ModelFolder,
    ReplaceBytes,
    TextColumn,
    counting,
    in_batches,
    load_for,
    open_inputs,
)


def regress(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="Texts as in training, or one a line; or stdin. For models of signals a file."),
    ] = None,
    form: FileFormat = "auto",
    text_column: TextColumn = None,
    replace: ReplaceBytes = False,
    as_json: AsJson = False,
) -> None:
    """Predict a number for texts or signals: one line out for every example in."""
    regressor = load_for("regress", model)
    inputs = open_inputs(regressor, file, form, text_column, replace)
    number = 0
    with counting("examples", file is not None and not sys.stdout.isatty()) as tick:
        for batch in in_batches(inputs, file):
            for example, value in zip(batch, regressor.predict(batch), strict=True):
                shown = example if isinstance(example, str) else number
                found = {"example": shown, "value": float(value)}
                print(json.dumps(found, ensure_ascii=False) if as_json else f"{value:.6g}")
                number += 1
            tick(len(batch))
