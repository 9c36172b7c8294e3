"""The interface of translators: `harken translate`, `POST /v1/translate`, and what looks inside a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Le, Len

from harken.errors import UserError
from harken.tasks.interface import (
    MAX_COUNT,
    MAX_SERVED_BEAM,
    SEARCH_PANEL,
    Argument,
    CommandLine,
    Examples,
    Interface,
    Operation,
    Option,
    Options,
    Texts,
    search_fields,
)
from harken.tasks.operations import ATTENTION, GATES, SCORE

output = partial(Option, in_request=False)  # a request has the fields of `TranslateRequest`
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
Phrase = Annotated[str, Len(1, 1000)]
Count = Annotated[int, Ge(0), Le(1000)]
PHRASES = Option("phrases that every translation must contain", max_length=20)
TERMS = Option("pairs of source and target terms", max_length=1000, in_command=False)


@dataclass(frozen=True)
class MaskedHead:
    """An attention head, counted from 0."""

    kind: Literal["cross", "encoder", "decoder"]  # attention to the source, or self-attention
    layer: Count
    head: Count
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True)
class TranslateRequest:
    """Texts, what their translations must be like, and what to tell of them; beside the keys of a search."""

    text: Annotated[str | list[str], Option("one text, or several; each is translated as one sentence")]
    source: Annotated[str | None, Option("language code, where no model is named", max_length=20)] = None
    target: Annotated[
        str | None, Option("language code; a pair without a model goes through a third language", max_length=20)
    ] = None
    nbest: Annotated[int, Option("translations of each text", ge=1, le=MAX_SERVED_BEAM)] = 1
    prefix: Annotated[str | list[str] | None, Option("how translations begin: one for all, or one for each")] = None
    require: Annotated[list[Phrase], PHRASES] = field(default_factory=list)
    glossary: Annotated[list[tuple[Phrase, Phrase]], TERMS] = field(default_factory=list)
    attention: Annotated[bool, Option("also weights of target words over source words, and links")] = False
    alignment: Annotated[bool, Option("also links of source and target words")] = False
    tokens: Annotated[bool, Option("also every piece with its log-probability and its word")] = False
    masked_heads: Annotated[list[MaskedHead], Option("attention heads that contribute nothing", max_length=512)] = (
        field(default_factory=list)
    )


@dataclass(frozen=True)
class Sentences(Examples):
    """Sentences, each with what its translation must begin with or contain."""

    request: type = field(default=TranslateRequest, kw_only=True)

    def items(self, body: Any) -> list[dict[str, Any]]:
        texts = [body.text] if isinstance(body.text, str) else body.text
        prefixes: Sequence[str | None] = body.prefix if isinstance(body.prefix, list) else [body.prefix] * len(texts)
        if len(prefixes) != len(texts):
            raise UserError(f"there are {len(prefixes)} prefixes for {len(texts)} texts; give one for each")
        parts = {"require": body.require, "glossary": body.glossary}
        return [
            {"text": text, **{name: value for name, value in {"prefix": prefix, **parts}.items() if value}}
            for text, prefix in zip(texts, prefixes, strict=True)
        ]


@dataclass(frozen=True)
class BeamRequest:
    """A sentence, and what its translation must begin with or contain."""

    text: Annotated[str, Option("a sentence")]
    prefix: Annotated[str | None, Option("how the translation begins")] = None
    require: Annotated[list[Phrase], PHRASES] = field(default_factory=list)
    glossary: Annotated[list[tuple[Phrase, Phrase]], TERMS] = field(default_factory=list)


@dataclass(frozen=True)
class AlternativesRequest:
    """A sentence, and the beginning of its translation."""

    text: Annotated[str, Option("a sentence")]
    prefix: Annotated[str, Option("the beginning of the translation that is kept")] = ""


@dataclass(frozen=True)
class AlternativesOptions(Options):
    """The number of alternatives."""

    count: Annotated[int, Option("alternatives for what follows the prefix", ge=1, le=MAX_SERVED_BEAM)] = 5


BEAM = Operation(
    "beam",
    "The tree of the beam search, each hypothesis with the terms of its score, and why the best one won.",
    Texts(request=BeamRequest),
    takes_search=True,
)
ALTERNATIVES = Operation(
    "alternatives",
    "Translations that share a beginning and go on with different tokens, the most probable first.",
    Texts(request=AlternativesRequest),
    AlternativesOptions,
    takes_search=True,
)
INTERFACE = Interface(
    verb="translate",
    help="Translate text: one line out for every line in. A closed pipe or the end of the input ends it.",
    input=Sentences(FILE, example="My brother works in a hospital."),
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
    operations=(ATTENTION, BEAM, ALTERNATIVES, SCORE, GATES),
    takes_search=True,
    changing_options=("masked_heads",),
    is_streamed=True,
    streams_in_thread=True,
    has_languages=True,
    runner="harken.cli.jobs.translate:run",
)
