"""The interface of language models: `harken generate`, `POST /v1/generate`, `POST /v1/score`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from harken.errors import UserError
from harken.tasks.interface import MAX_COUNT, MAX_SEED, CommandLine, Interface, Option, Options, Prompts
from harken.tasks.operations import GATES, SCORE

MAX_SERVED = 20_000  # tokens of all continuations of a request


@dataclass(frozen=True)
class SamplingOptions(Options):
    """The drawing of a text; also the keyword arguments of `LanguageModel.samples`."""

    length: Annotated[int, Option("tokens to write", ge=1, le=MAX_COUNT, served_le=2000, slider=(5, 200, 5))] = 200
    temperature: Annotated[
        float,
        Option(
            "below 1 safer, above 1 bolder; 0: the likeliest token every time",
            ge=0,
            le=1e6,
            served_le=100,
            slider=(0, 1.5, 0.05),
        ),
    ] = 1.0
    top_k: Annotated[int | None, Option("draw from so many likeliest tokens alone", ge=1, le=MAX_COUNT)] = None
    top_p: Annotated[
        float | None, Option("draw from the fewest likeliest tokens that have this probability together", gt=0, le=1)
    ] = None
    min_p: Annotated[
        float | None, Option("draw from tokens at least this probable beside the likeliest", ge=0, le=1)
    ] = None
    seed: Annotated[int, Option("the same seed gives the same text", ge=0, le=MAX_SEED, slider=(0, 50, 1))] = 0
    line: Annotated[bool, Option("stop at the end of a line")] = False


@dataclass(frozen=True)
class GenerateOptions(SamplingOptions):
    """Options of `harken generate`."""

    count: Annotated[int, Option("texts for each prompt", ge=1, le=MAX_COUNT, served_le=64)] = 1
    surprisal: Annotated[
        bool, Option("write nothing: show how surprising every token of the prompt is", in_request=False)
    ] = False

    @property
    def is_streamable(self) -> bool:
        return self.count == 1 and not self.surprisal

    def check_command(self, command: CommandLine) -> None:
        if command.out is not None and not self.surprisal:
            raise UserError("--out writes the picture of --surprisal; add it, or send the text to a file with >")

    def check_request(self) -> None:
        if self.length * self.count > MAX_SERVED:
            raise UserError(f"length times count is at most {MAX_SERVED:,} tokens")


INTERFACE = Interface(
    verb="generate",
    help="Let a language model write on from a prompt, each token drawn and fed back.",
    input=Prompts(example="the black cat", label="Beginning"),
    options=GenerateOptions,
    examples=(
        "harken generate runs/language 'the black cat' --line --count 5",
        "harken generate runs/shakespeare 'ROMEO:' --length 500 --temperature 0.8 --top-p 0.95",
        "harken generate runs/language 'the black cat sleeps' --surprisal --out surprise.svg",
    ),
    unit="texts",
    batch=1,
    figure="surprisal",
    operations=(SCORE, GATES),
    is_streamed=True,
)
