"""`harken transcribe`: recordings in, a line of text for each out.

plain      text                              one line for each recording, in the order they were named
--json     {"file": ..., "text": ..., "score": ..., "confidence": ..., "seconds": ...,
            "symbols": [{"symbol": ..., "start": ..., "end": ..., "confidence": ...}, ...]}
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from harken.cli.common import AsJson, Beam, ModelFolder, load_for
from harken.errors import UserError


def transcribe(
    model: ModelFolder,
    files: Annotated[
        list[Path], typer.Argument(help="Recordings (WAV; FLAC, OGG ... with soundfile), or - for a list on stdin.")
    ],
    beam: Beam = None,
    lm_weight: Annotated[
        float | None, typer.Option(min=0, max=1000, help="How much a beam heeds the n-gram of the training texts.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write down what is said in recordings: one line out for every file."""
    transcriber = load_for("transcribe", model)
    if lm_weight and (beam or transcriber.recipe.search.beam) == 1:
        raise UserError("--lm-weight is heeded by a beam alone; add --beam 8")
    for path in paths_of(files):
        found = transcriber.transcribe(path, beam=beam, lm_weight=lm_weight)
        print(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.text, flush=True)


def paths_of(files: Sequence[Path]) -> Iterator[Path]:
    """The files that are named; in place of `-`, those on stdin, one a line."""
    from harken.data.io.files import decode_lines

    for file in files:
        if str(file) != "-":
            yield file
            continue
        yield from (Path(line.strip()) for line in decode_lines(sys.stdin.buffer, "stdin") if line.strip())
