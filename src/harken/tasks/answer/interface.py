"""The interface of question answering: `harken answer`, `POST /v1/answer`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from harken.errors import UserError
from harken.tasks.interface import Argument, Input, Interface, Option, Options, Reading
from harken.tasks.operations import GATES

if TYPE_CHECKING:
    from harken.data.text.questions import Question


@dataclass(frozen=True)
class AnswerOptions(Options):
    """Options of `harken answer`."""

    question: Annotated[str | None, Option("ask this about all lines", in_request=False)] = None


@dataclass(frozen=True)
class StoryRequest:
    """Facts and a question."""

    facts: Annotated[list[str], Option("sentences, oldest first", min_length=1, max_length=1000)]
    question: Annotated[str, Option("a question about them")]


FILE = Argument("file", Path | None, "Facts, one a line, oldest first; lines ending in ? are asked. Or stdin.")


@dataclass(frozen=True)
class Stories(Input):
    """Facts line by line, and a question where a line ends in one; an empty line begins a new story."""

    is_replaceable: ClassVar[bool] = True
    is_many_lines: ClassVar[bool] = True
    argument: Argument = FILE
    request: type = field(default=StoryRequest, kw_only=True)

    def examples(self, job: Any, model: Any, items: Sequence[Mapping[str, Any]]) -> list[Question]:
        from harken.data.text.questions import Question

        return [Question(tuple(item["facts"]), item["question"]) for item in items]

    def read(self, job: Any, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Question]:
        lines, is_asked = reading.lines(value), False
        for question in one_question(lines, options.question) if options.question is not None else questions_of(lines):
            is_asked = True
            yield question
        if not is_asked:
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


INTERFACE = Interface(
    verb="answer",
    help="Answer questions about facts, and say which facts they rest on (--json; harken attention draws it).",
    input=Stories(example="Anna went to the hall. Where is Anna?", label="Facts, then a question"),
    options=AnswerOptions,
    examples=(
        "printf 'Anna went to the hall.\\nWhere is Anna?\\n' | harken answer runs/answer",
        "harken answer runs/answer story.txt --question 'Where is the key?' --json",
    ),
    usage="harken answer {} story.txt",
    unit="questions",
    operations=(GATES,),
    is_live=True,
)
