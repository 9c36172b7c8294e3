"""The interface of an ELMo: `harken vectors`, `POST /v1/vectors`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harken.tasks.interface import Argument, Interface, Option, Options, Texts


@dataclass(frozen=True)
class VectorsOptions(Options):
    """Options of `harken vectors`."""

    layers: Annotated[bool, Option("a vector of every layer, and not their mean")] = False


FILE = Argument("file", Path | None, "Sentences, one a line; or stdin.")
INTERFACE = Interface(
    verb="vectors",
    help="Give every word its vector in its sentence: a word, a tab and its numbers on a line.",
    input=Texts(FILE, example="the black cat sleeps"),
    options=VectorsOptions,
    examples=("echo 'the black cat sleeps' | harken vectors runs/elmo --json",),
    unit="sentences",
)
