"""The interface of masked language models: `harken fill`, `POST /v1/fill`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from harken.tasks.interface import Argument, Interface, Option, Options, Texts
from harken.tasks.operations import GATES


@dataclass(frozen=True)
class FillOptions(Options):
    """Options of `harken fill`."""

    count: Annotated[int, Option("tokens for each gap", ge=1, le=1000, slider=(1, 20, 1))] = 5


FILE = Argument("file", Path | None, "Texts with [MASK] in place of words, one a line; or stdin.")
INTERFACE = Interface(
    verb="fill",
    help="Fill the gaps of texts: the likeliest tokens for every [MASK].",
    input=Texts(FILE, example="the black [MASK] sleeps", example_key="text"),
    options=FillOptions,
    examples=("echo 'the black [MASK] sleeps' | harken fill runs/masked --count 3",),
    operations=(GATES,),
)
