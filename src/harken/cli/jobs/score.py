"""`harken score`: how probable given translations are to a model.

plain      score                                          one line for each pair
--tokens   score TAB piece:log-probability ...            the end of the sentence last
--json     {"source": ..., "target": ..., "score": ..., "log_probability": ..., "perplexity": ..., "tokens": [...]}
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, ModelFolder, examples, load_for, open_lines, print_json
from harken.errors import UserError

CHUNK = 512  # pairs that are read before they are scored


@examples(
    "harken score runs/demo test.en test.fr",
    "harken score runs/demo test.en test.fr --tokens      (with the log-probability of every piece)",
)
def score(
    model: ModelFolder,
    source: Annotated[Path, typer.Argument(help="Text, one sentence a line (.gz, .xz too).")],
    target: Annotated[Path, typer.Argument(help="Its translation, line by line; - reads stdin.")],
    tokens: Annotated[bool, typer.Option("--tokens", help="Add the log-probability of every piece.")] = False,
    as_json: AsJson = False,
) -> None:
    """Score given translations by forced decoding; the score is that of the search, so the two can be compared."""
    translator = load_for("translate", model)
    left, right = open_lines(source), open_lines(target)
    number = 0
    while True:
        sources = [line for _, line in zip(range(CHUNK), left, strict=False)]
        targets = [line for _, line in zip(range(len(sources)), right, strict=False)]
        if len(targets) < len(sources):
            raise UserError(
                f"{target} ends after {number + len(targets):,} lines, and {source} goes on; pair them line by line"
            )
        if not sources:
            break
        for line_number, (source_line, target_line) in enumerate(zip(sources, targets, strict=True), start=number + 1):
            if not source_line.strip() or not target_line.strip():
                empty = source if not source_line.strip() else target
                raise UserError(f"{empty}, line {line_number}: the line is empty; both sides of a pair need a word")
        for scored in translator.score(sources, targets):
            pairs = list(zip(scored.pieces, scored.token_scores, strict=True))
            if as_json:
                row = {
                    "source": scored.source,
                    "target": scored.target,
                    "score": round(scored.score, 6),
                    "log_probability": round(scored.log_probability, 6),
                    "perplexity": round(scored.perplexity, 4),
                    "tokens": [{"piece": piece, "log_probability": round(value, 6)} for piece, value in pairs],
                }
                print_json(row)
            elif tokens:
                print(f"{scored.score:.4f}\t" + " ".join(f"{piece}:{value:.4f}" for piece, value in pairs))
            else:
                print(f"{scored.score:.4f}")
        number += len(sources)
    if next(right, None) is not None:
        raise UserError(f"{source} ends after {number:,} lines, and {target} goes on; pair them line by line")
