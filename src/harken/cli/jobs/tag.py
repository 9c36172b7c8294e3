"""`harken tag`: sentences in, the same words with their tags out.

Formats, one for each use:

    plain      word/TAG word/TAG                 one line for each line; an empty line stays empty
    --conll    word TAB TAG                      a word a line, a blank line after each sentence
    --json     {"words": [...], "tags": [...], "probabilities": [...]}
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.tag.tagger import Tagging


def tag(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help="Sentences, one a line, words apart by spaces; CoNLL, CoNLL-U, JSONL; or stdin."),
    ] = None,
    conll: Annotated[bool, typer.Option("--conll", help="A word and its tag a line, tab between.")] = False,
    form: FileFormat = "auto",
    text_column: TextColumn = None,
    replace: ReplaceBytes = False,
    as_json: AsJson = False,
) -> None:
    """Tag words: one line out for every line in. A closed pipe or the end of the input ends it."""
    if conll and as_json:
        raise UserError("--conll and --json were both given; keep one of them")
    tagger = load_for("tag", model)
    sentences = open_inputs(tagger, file, form, text_column, replace)
    write = write_json if as_json else write_conll if conll else write_plain
    with counting("lines", file is not None and not sys.stdout.isatty()) as tick:
        for chunk in in_batches(sentences, file):
            for found in tagger.tag_all(chunk):
                write(found)
            tick(len(chunk))


def write_plain(found: Tagging) -> None:
    """word/TAG word/TAG"""
    print(str(found))


def write_conll(found: Tagging) -> None:
    """A word a line, then a blank line."""
    for word, label in zip(found.words, found.tags, strict=True):
        print(f"{word}\t{label}")
    print()


def write_json(found: Tagging) -> None:
    """With the probability of each chosen tag."""
    probabilities = [round(probability, 4) for probability in found.probabilities]
    print(json.dumps({"words": found.words, "tags": found.tags, "probabilities": probabilities}, ensure_ascii=False))
