"""`harken classify`: a label for every line of text, or for every signal of a file.

plain      label                                    one line for each text
--scores   label TAB probability
--top N    label TAB probability, N times over, on one line
--json     {"example": ..., "label": ..., "scores": {"positive": 0.98, ...}}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.common import (
    MAX_COUNT,
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

if TYPE_CHECKING:
    import numpy as np


def classify(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="Texts as in training, or one a line; or stdin. For models of signals a file."),
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Add a tab and the probability to each label.")] = False,
    top: Annotated[
        int, typer.Option(min=1, max=MAX_COUNT, help="The N likeliest labels, each with its probability.")
    ] = 1,
    form: FileFormat = "auto",
    text_column: TextColumn = None,
    replace: ReplaceBytes = False,
    as_json: AsJson = False,
) -> None:
    """Label texts or signals: one line out for every example in."""
    classifier = load_for("classify", model)
    inputs = open_inputs(classifier, file, form, text_column, replace)
    number = 0
    with counting("examples", file is not None and not sys.stdout.isatty()) as tick:
        for batch in in_batches(inputs, file):
            for example, probabilities in zip(batch, classifier.predict_proba(batch), strict=True):
                shown = example if isinstance(example, str) else number
                print(line_of(shown, classifier.classes, probabilities, scores, top, as_json))
                number += 1
            tick(len(batch))


def line_of(shown: Any, classes: list[str], probabilities: np.ndarray, scores: bool, top: int, as_json: bool) -> str:
    """What is printed for one example; `shown` is its text, or the number of a signal."""
    best = [(classes[label], float(probabilities[label])) for label in probabilities.argsort()[::-1][:top]]
    if as_json:
        kept = best if top > 1 else [(label, float(value)) for label, value in zip(classes, probabilities, strict=True)]
        rounded = {label: round(value, 6) for label, value in kept}
        return json.dumps({"example": shown, "label": best[0][0], "scores": rounded}, ensure_ascii=False)
    if scores or top > 1:
        return "\t".join(f"{label}\t{value:.4f}" for label, value in best)
    return best[0][0]
