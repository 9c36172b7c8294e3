"""`harken tag`: sentences in, the same words with their tags out.

Formats, one for each use:

    plain      word/TAG word/TAG                 one line for each line; an empty line stays empty
    --conll    word TAB TAG                      a word a line, a blank line after each sentence
    --json     {"words": [...], "tags": [...], "probabilities": [...]}
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.loading import load_for
from harken.cli.options import AsJson, ModelFolder
from harken.cli.printing import counting
from harken.cli.translate import open_lines
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.tasks.tag.tagger import Tagging

BATCH = 256  # lines read before they are tagged


def tag(
    model: ModelFolder,
    file: Annotated[
        Path | None, typer.Argument(help="Sentences, one a line, words apart by spaces (.gz, .xz too); or stdin.")
    ] = None,
    conll: Annotated[bool, typer.Option("--conll", help="A word and its tag a line, tab between.")] = False,
    as_json: AsJson = False,
) -> None:
    """Tag words: one line out for every line in. A closed pipe or the end of the input ends it."""
    if conll and as_json:
        raise UserError("--conll and --json were both given; keep one of them")
    lines = open_lines(file)
    tagger = load_for("tag", model)
    write = write_json if as_json else write_conll if conll else write_plain
    size = 1 if file is None and sys.stdin.isatty() else BATCH
    with counting("lines", file is not None and not sys.stdout.isatty()) as tick:
        while chunk := list(islice(lines, size)):
            for found in tagger.tag_all(chunk):
                write(found)
            sys.stdout.flush()
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
    chances = [round(chance, 4) for chance in found.probabilities]
    print(json.dumps({"words": found.words, "tags": found.tags, "probabilities": chances}, ensure_ascii=False))
