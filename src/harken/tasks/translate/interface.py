"""How translators are used: `harken translate`, and `POST /v1/translate`, whose body is `harken.serving`'s own."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from harken.errors import UserError
from harken.tasks.interface import (
    MAX_COUNT,
    SEARCH_PANEL,
    Argument,
    CommandLine,
    Examples,
    Interface,
    Option,
    Options,
    search_fields,
)

output = partial(Option, in_request=False)  # the body of the route is `harken.serving`'s own
searched = partial(output, panel=SEARCH_PANEL)


@dataclass(frozen=True)
class OutputOptions(Options):
    """Options of `harken translate` beside the keys of the recipe's `[search]` table."""

    beam: Annotated[int | None, output("live hypotheses; 1 is greedy search. Default: the recipe's", ge=1, le=1000)] = (
        None
    )
    nbest: Annotated[int, output("translations of each line, as index ||| text ||| score", ge=1, le=1000)] = 1
    scores: Annotated[bool, output("add a tab and the score to each line")] = False
    alignments: Annotated[
        Path | None, output("write word alignments (Pharaoh: i-j, source-target, from 0) to this file")
    ] = None
    out: Annotated[Path | None, output("write to this file instead of stdout")] = None
    resume: Annotated[Path | None, output("like --out, and continue the file where a killed job left it")] = None
    long_lines: Annotated[
        Literal["split", "copy"], output("lines longer than the model reads: translate them in parts, or copy them")
    ] = "split"
    workers: Annotated[int | None, output("batches translated at once. Default: one per CPU core", ge=1, le=1024)] = (
        None
    )
    batch: Annotated[
        int | None, output("lines sorted by length together. Default: 16 at first, then 4,096", ge=1, le=MAX_COUNT)
    ] = None
    engine: Annotated[
        Literal["local", "ray"],
        output("where to translate: on this machine, or on the Ray cluster of RAY_ADDRESS (with --out)"),
    ] = "local"
    stream: Annotated[bool, output("print each part of a translation as soon as it is certain")] = False
    profile: Annotated[bool, output("say which search backend ran, and why not a faster one")] = False
    prefix: Annotated[str, searched("the beginning of every translation")] = ""
    alternatives: Annotated[
        int, searched("translations that differ in the first token after the prefix", ge=0, le=100)
    ] = 0
    prefix_bias: Annotated[float | None, searched("prefer the prefix by this much (0 to 1) instead of forcing it")] = (
        None
    )
    require: Annotated[list[str] | None, searched("a phrase every translation must contain; may be given often")] = None
    weights: Annotated[str | None, searched("weights of several models, such as 2,1,1. Default: equal")] = None

    @property
    def target(self) -> Path | None:
        """The file that is written in place of stdout."""
        return self.resume or self.out

    def check_command(self, command: CommandLine) -> None:
        if self.beam is not None and self.nbest > self.beam:
            raise UserError(f"--nbest {self.nbest} needs a beam as wide: add --beam {self.nbest}")
        if self.resume is not None and self.out is not None:
            raise UserError("--out and --resume both name the output; keep one of them")
        if self.engine == "ray" and self.target is None:
            raise UserError("--engine ray writes a file that can be resumed; name it with --out or --resume")
        others = command.as_json or self.scores or self.alignments or self.nbest > 1 or self.target
        if (self.alternatives or self.stream) and (others or (self.alternatives and self.stream)):
            printed = "--stream prints plain text" if self.stream else "--alternatives prints index ||| text ||| score"
            raise UserError(f"{printed}; leave other formats and files out")
        if self.target is not None and self.alignments is not None:
            raise UserError(
                "--out and --resume do not write --alignments; --json has the links beside each translation"
            )


SEARCH = [(name, Annotated[field.kind, field.option], None) for name, field in search_fields().items()]
TranslateOptions = make_dataclass("TranslateOptions", SEARCH, bases=(OutputOptions,), frozen=True)
FILE = Argument(
    "file",
    list[Path] | None,
    "Text, one sentence a line, TSV or JSONL (.gz, .xz too); or stdin. More models may come before: an ensemble.",
    metavar="[MODEL]... [FILE]",
)
INTERFACE = Interface(
    verb="translate",
    help="Translate text: one line out for every line in. A closed pipe or the end of the input ends it.",
    input=Examples(FILE, example="My brother works in a hospital."),
    options=TranslateOptions,
    examples=(
        "echo 'My brother works in a hospital.' | harken translate runs/demo",
        "harken translate runs/demo text.en --alignments links.txt > text.fr",
        "harken translate runs/demo text.en --nbest 5      (lines of: index ||| text ||| score)",
        "harken translate runs/demo million.en --resume million.fr      (continues after a kill)",
        "harken translate runs/demo runs/attention text.en      (an ensemble)",
        "harken translate runs/demo text.en --glossary terms.tsv --no-repeat-ngram 3",
    ),
    unit="lines",
    operations=("attention", "beam", "alternatives", "score", "gates"),
    is_streamed=True,
)
