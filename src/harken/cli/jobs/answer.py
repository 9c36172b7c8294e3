"""`harken answer`: facts line by line, and a question where a line ends in one; an answer for every question.

    plain      garden                            one line for each question
    --json     {"question": ..., "answer": ..., "score": ..., "facts": [...], "hops": [[...], ...]}

An empty line begins a new story. With --question the whole text is one story, and that is asked about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harken.cli.common import AsJson, ModelFolder, ReplaceBytes, in_batches, load_for, open_lines
from harken.errors import UserError

if TYPE_CHECKING:
    from harken.data.text.questions import Question


def answer(
    model: ModelFolder,
    file: Annotated[
        Path | None, typer.Argument(help="Facts, one a line, oldest first; lines ending in ? are asked. Or stdin.")
    ] = None,
    question: Annotated[str | None, typer.Option(help="Ask this about all lines.")] = None,
    replace: ReplaceBytes = False,
    as_json: AsJson = False,
) -> None:
    """Answer questions about facts, and say which facts they rest on (--json; harken attention draws it)."""
    lines = open_lines(file, replace)
    answerer = load_for("answer", model)
    asked = one_question(lines, question) if question is not None else questions_of(lines)
    some = False
    for chunk in in_batches(asked, file):
        some = True
        for found in answerer.answer_all(chunk):
            print(json.dumps(found.to_dict(), ensure_ascii=False) if as_json else found.text)
    if not some:
        raise UserError("there is no question: end a line with ?, or give one as --question")


def questions_of(lines: Iterable[str]) -> Iterator[Question]:
    """Each line that ends in a question mark, asked about the lines before it."""
    from harken.data.text.questions import Question

    facts: list[str] = []
    for line in lines:
        text = line.strip()
        if not text:
            facts = []
        elif text.endswith("?"):
            yield Question(tuple(facts), text)
        else:
            facts.append(text)


def one_question(lines: Iterable[str], question: str) -> Iterator[Question]:
    """One question about everything that is told."""
    from harken.data.text.questions import Question

    yield Question(tuple(line.strip() for line in lines if line.strip()), question)
