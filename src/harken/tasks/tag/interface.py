"""The interface of taggers: `harken tag`, `POST /v1/tag`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harken.errors import UserError
from harken.tasks.interface import Argument, CommandLine, Examples, Interface, Option, Options
from harken.tasks.operations import GATES


@dataclass(frozen=True)
class TagOptions(Options):
    """Options of `harken tag`."""

    conll: Annotated[bool, Option("a word and its tag a line, tab between", in_request=False)] = False
    scores: Annotated[
        bool, Option("also the probability of every tag at every word, with --json", in_command=False)
    ] = False

    def check_command(self, command: CommandLine) -> None:
        if self.conll and command.as_json:
            raise UserError("--conll and --json were both given; keep one of them")


FILE = Argument("file", Path | None, "Sentences, one a line, words apart by spaces; CoNLL, CoNLL-U, JSONL; or stdin.")
INTERFACE = Interface(
    verb="tag",
    help="Tag words: one line out for every line in. A closed pipe or the end of the input ends it.",
    input=Examples(FILE, example="we clean the clean house"),
    options=TagOptions,
    examples=(
        "echo 'we clean the clean house' | harken tag runs/tags",
        "harken tag runs/tags sentences.txt --conll > tagged.conll",
    ),
    unit="lines",
    operations=(GATES,),
    is_live=True,
)
