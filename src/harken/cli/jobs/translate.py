"""`harken translate`: lines in, lines out, in batches as they come.

Formats, one for each use:

    plain      text                              one line for each line; an empty line stays empty
    --scores   text TAB score
    --nbest N  index ||| text ||| score          up to N lines for each line, best first; index counts lines from 0
    --json     {"source": ..., "unknown": [...], "translations": [{"text": ..., "score": ..., "alignment": ...}, ...]}

Words that the model has never seen are named on stderr, and under "unknown" in JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harken.cli.common import (
    MAX_COUNT,
    AsJson,
    Beam,
    FileFormat,
    ModelFolder,
    ReplaceBytes,
    TextColumn,
    counting,
    in_batches,
    load_for,
    open_inputs,
    tell,
)
from harken.cli.search_options import PANEL, models_and_file, with_search_options
from harken.errors import UserError
from harken.files import open_output

if TYPE_CHECKING:
    from harken.tasks.translate.translation import Translation
    from harken.tasks.translate.translator import Translator

NOTED = 5  # lines with unknown words that are named one by one


@with_search_options
def translate(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Text, one sentence a line, TSV or JSONL (.gz, .xz too); or stdin. More models may come before."
        ),
    ] = None,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[MODEL|FILE]...", help="Models of an ensemble, and the file.")
    ] = None,
    beam: Beam = None,
    nbest: Annotated[
        int, typer.Option(min=1, max=1000, help="Translations of each line, as index ||| text ||| score.")
    ] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Add a tab and the score to each line.")] = False,
    alignments: Annotated[
        Path | None, typer.Option(help="Write word alignments (Pharaoh: i-j, source-target, from 0) to this file.")
    ] = None,
    form: FileFormat = "auto",
    text_column: TextColumn = None,
    replace: ReplaceBytes = False,
    as_json: AsJson = False,
    batch: Annotated[
        int | None, typer.Option(min=1, max=MAX_COUNT, help="Lines translated together. Default: 256; typed: 1.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print each part of a translation as soon as it is certain.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="The beginning of every translation.", rich_help_panel=PANEL)] = "",
    alternatives: Annotated[
        int,
        typer.Option(
            min=0, max=100, help="Translations that differ in the first token after the prefix.", rich_help_panel=PANEL
        ),
    ] = 0,
    prefix_bias: Annotated[
        float | None,
        typer.Option(help="Prefer the prefix by this much (0 to 1) instead of forcing it.", rich_help_panel=PANEL),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help="A phrase every translation must contain; may be given often.", rich_help_panel=PANEL),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Weights of several models, such as 2,1,1. Default: equal.", rich_help_panel=PANEL),
    ] = None,
    search: dict[str, Any] | None = None,
) -> None:
    """Translate text: one line out for every line in. A closed pipe or the end of the input ends it."""
    if beam is not None and nbest > beam:
        raise UserError(f"--nbest {nbest} needs a beam as wide: add --beam {nbest}")
    folders, file = models_and_file([path for path in (file, *(more or [])) if path is not None])
    translator = load_for("translate", model)
    lines = open_inputs(translator, file, form, text_column, replace)
    given = {"prefix": prefix, "prefix_bias": prefix_bias, "require": require, "weights": weights_of(weights)}
    given["ensemble"] = [load_for("translate", folder) for folder in folders]
    options = {**(search or {}), **{name: value for name, value in given.items() if value not in (None, "", [])}}
    if alternatives:
        if as_json or scores or alignments or nbest > 1 or stream:
            raise UserError("--alternatives prints index ||| text ||| score; leave other formats out")
        options.pop("prefix", None)
        show = writer(as_json=False, scores=False, nbest=alternatives + 1)
        for index, line in enumerate(lines):
            show(index, line, translator.alternatives(line, prefix, alternatives, beam=beam, **options))
        return
    if stream:
        if as_json or scores or alignments or nbest > 1:
            raise UserError("--stream prints plain text; leave --json, --scores, --nbest and --alignments out")
        for line in lines:
            for part in translator.stream(line, beam=beam, **options):
                print(one_line(part), end="", flush=True)
            print(flush=True)
        return
    attention = alignments is not None or as_json
    write = writer(as_json, scores, nbest)
    with ExitStack() as stack:
        links = None if alignments is None else stack.enter_context(open_output(alignments))
        watched = file is not None and not sys.stdout.isatty()  # else the lines themselves show how far it is
        tick = stack.enter_context(counting("lines", watched))
        index, unknown = 0, 0
        for chunk in in_batches(lines, file, batch):
            chunk = [shorten(translator, line, index + place) for place, line in enumerate(chunk, start=1)]
            results = translate_lines(translator, chunk, nbest, beam, attention, options)
            for source, found in zip(chunk, results, strict=True):
                write(index, source, found)
                if found and found[0].unknown:
                    unknown += 1
                    note_unknown(found[0], index + 1, unknown)
                if links is not None:
                    links.writelines(f"{line}\n" for line in [pharaoh(best, model) for best in found] or [""])
                index += 1
            tick(len(chunk))
    if unknown > NOTED:
        tell(f"{unknown:,} of {index:,} lines have words that the model has never seen; --json names them all")


def note_unknown(translation: Translation, number: int, count: int) -> None:
    """Name the words that the model has never seen; past `NOTED` lines they are only counted."""
    if count <= NOTED:
        tell(f"line {number}: {unknown_note(translation.unknown_words)}")


def unknown_note(words: Sequence[str]) -> str:
    """What is said of words that the model has never seen.

    >>> unknown_note(["zebra"])
    'the model has never seen zebra, so the translation is a guess there'
    """
    shown = ", ".join(word if len(word) <= 40 else f"{word[:40]}..." for word in words[:NOTED])
    more = f" and {len(words) - NOTED:,} more words" if len(words) > NOTED else ""
    return f"the model has never seen {shown}{more}, so the translation is a guess there"


def weights_of(text: str | None) -> list[float] | None:
    """`2,1,1` as numbers.

    Raises:
        UserError: something else.
    """
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--weights {text} is no list of numbers; write them like 2,1,1") from None


def shorten(translator: Translator, line: str, number: int) -> str:
    """A line without what is past the model's limit, with a note: one over-long line does not end the job."""
    text = translator.shorten(line)
    if len(text) < len(line):
        tell(f"line {number} is too long for the model: its first {len(text):,} characters alone are translated")
    return text


def translate_lines(
    translator: Translator, lines: Sequence[str], nbest: int, beam: int | None, attention: bool, options: dict[str, Any]
) -> list[list[Translation]]:
    """Translations of each line, best first; none for an empty line."""
    wanted = [line for line in lines if line.strip()]
    results = iter(translator.nbest(wanted, nbest, beam, attention=attention, **options) if wanted else [])
    return [next(results) if line.strip() else [] for line in lines]


def writer(as_json: bool, scores: bool, nbest: int) -> Callable[[int, str, Sequence[Translation]], None]:
    """What prints the translations of one line, in the format that was asked for."""

    def write_json(index: int, source: str, found: Sequence[Translation]) -> None:
        translations: list[dict[str, Any]] = []
        for best in found:
            links = None if best.attention is None else best.alignment()
            translations.append({"text": best.text, "score": round(best.score, 4), "alignment": links})
        unknown = found[0].unknown_words if found else []
        print(json.dumps({"source": source, "unknown": unknown, "translations": translations}, ensure_ascii=False))

    def write_nbest(index: int, source: str, found: Sequence[Translation]) -> None:
        for best in found:
            print(f"{index} ||| {one_line(best.text)} ||| {best.score:.4f}")
        if not found:
            print(f"{index} |||  ||| 0.0000")

    def write_plain(index: int, source: str, found: Sequence[Translation]) -> None:
        text, score = (one_line(found[0].text), found[0].score) if found else ("", 0.0)
        print(f"{text}\t{score:.4f}" if scores else text)

    if as_json:
        return write_json
    return write_nbest if nbest > 1 else write_plain


def one_line(text: str) -> str:
    """The text without line breaks, so that line N of the output belongs to line N of the input."""
    return " ".join(text.split("\n"))


def pharaoh(translation: Translation, model: Path) -> str:
    """`0-0 1-2`: source word, target word.

    Raises:
        UserError: the model has no attention to read links from.
    """
    if translation.attention is None:
        raise UserError(f"{model} has no attention to read alignments from; leave --alignments out")
    return " ".join(f"{i}-{j}" for i, j in translation.alignment())
