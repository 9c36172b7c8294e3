"""The interface of handwriting models: `harken write`, `POST /v1/write`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from harken.tasks.interface import MAX_COUNT, MAX_SEED, Argument, Input, Interface, Option, Options, Reading


@dataclass(frozen=True)
class WriteOptions(Options):
    """Options of `harken write`."""

    count: Annotated[
        int, Option("how many drawings, each from its own random numbers", ge=1, le=MAX_COUNT, in_request=False)
    ] = 1
    bias: Annotated[
        float | None,
        Option(
            "0: as varied as the data; more: neater; default: the recipe's",
            ge=0,
            le=1000,
            served_le=100,
            slider=(0, 5, 0.25),
        ),
    ] = None
    seed: Annotated[int, Option("the same seed gives the same strokes", ge=0, le=MAX_SEED, slider=(0, 50, 1))] = 1


@dataclass(frozen=True)
class WriteRequest:
    """A text to be written."""

    text: Annotated[str, Option("what to write; empty for models that draw from nothing", max_length=1000)] = ""


TEXT = Argument("text", str | None, "What to write, in quotes; left out where the model draws from nothing.")


@dataclass(frozen=True)
class Line(Input):
    """A text as the argument of the command, or nothing."""

    opens_files: ClassVar[bool] = True  # of drawings, for figures
    argument: Argument = TEXT
    request: type = field(default=WriteRequest, kw_only=True)

    def examples(self, job: Any, model: Any, items: Sequence[Mapping[str, Any]]) -> list[str | None]:
        return [item["text"] or None for item in items]

    def read(self, job: Any, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[str | None]:
        yield value


INTERFACE = Interface(
    verb="write",
    help="Write by hand: strokes drawn from a model, point by point.",
    input=Line(example="hello world"),
    options=WriteOptions,
    examples=(
        "harken write runs/pen 'hello world' --out hello.svg",
        "harken write runs/pen 'hello world' --bias 2 --count 5",
        "harken write runs/omniglot --count 12 --out drawings.html      (a model that draws from nothing)",
    ),
    usage="harken write {} --out sample.svg",
    unit="drawings",
    figure="line",
)
