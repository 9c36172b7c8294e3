"""`harken classify`: a label for every line of text, or for every signal of a file.

plain      label                                    one line for each text
--scores   label TAB probability
--top N    label TAB probability, N times over, on one line
--json     {"example": ..., "label": ..., "scores": {"positive": 0.98, ...}}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.loading import load_for
from harken.cli.options import AsJson, ModelFolder
from harken.cli.printing import counting
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.classify.classifier import Classifier

BATCH = 512


def classify(
    model: ModelFolder,
    file: Annotated[
        Path | None, typer.Argument(help="Text, one example a line, or stdin; for models of signals a file of them.")
    ] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Add a tab and the probability to each label.")] = False,
    top: Annotated[int, typer.Option(min=1, help="The N likeliest labels, each with its probability.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Label texts or signals: one line out for every example in."""
    classifier = load_for("classify", model)
    examples = lines_of(file) if classifier.tokenizer is not None else signals_of(classifier, file)
    size = 1 if file is None and sys.stdin.isatty() else BATCH
    number = 0
    with counting("examples", file is not None and not sys.stdout.isatty()) as tick:
        while chunk := list(islice(examples, size)):
            write(classifier, chunk, number, scores, top, as_json)
            number += len(chunk)
            tick(len(chunk))


def write(classifier: Classifier, chunk: Sequence[Any], number: int, scores: bool, top: int, as_json: bool) -> None:
    """Print what is said of some examples; `number` is that of the first."""
    for place, (example, chances) in enumerate(zip(chunk, classifier.predict_proba(chunk), strict=True), start=number):
        order = chances.argsort()[::-1][: max(top, 1)]
        best = [(classifier.classes[label], float(chances[label])) for label in order]
        if as_json:
            shown = example if isinstance(example, str) else place
            kept = (
                {label: round(chance, 6) for label, chance in best}
                if top > 1
                else {label: round(float(chance), 6) for label, chance in zip(classifier.classes, chances, strict=True)}
            )
            print(json.dumps({"example": shown, "label": best[0][0], "scores": kept}, ensure_ascii=False))
        elif scores or top > 1:
            print("\t".join(f"{label}\t{chance:.4f}" for label, chance in best))
        else:
            print(best[0][0])
    sys.stdout.flush()


def lines_of(file: Path | None) -> Iterator[str]:
    """The lines of a file, or of stdin for None and `-`."""
    from harken.data.io.files import decode_lines, read_lines, require_file

    if file is None or str(file) == "-":
        return decode_lines(sys.stdin.buffer, "stdin")
    return read_lines(require_file(file))


def signals_of(classifier: Classifier, file: Path | None) -> Iterator[Any]:
    """The signals of a file in the format the model was trained on, or an .npy or .npz.

    Raises:
        UserError: no file, or one that cannot be read.
    """
    if file is None:
        raise UserError("signals do not come through stdin; name a file, as .npy, .npz or in the format of training")
    from harken.data.series.signals import BY_ENDING, read_signals

    data = classifier.recipe.data
    if BY_ENDING.get(file.suffix) == "arrays":
        data = data.model_copy(update={"format": "arrays"})
    return iter(read_signals(file, data).values)
