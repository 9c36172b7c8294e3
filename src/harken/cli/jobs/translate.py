"""`harken translate`: lines in, lines out, in order, as they come.

Files are sorted by length within a window and translated by all cores (`harken.tasks.translate.lines`).
Formats, one for each use:

    plain      text                              one line for each line; an empty line stays empty
    --scores   text TAB score
    --nbest N  index ||| text ||| score          up to N lines for each line, best first; index counts lines from 0
    --json     {"source": ..., "unknown": [...], "translations": [{"text": ..., "score": ..., "alignment": ...}, ...]}

Words that the model has never seen are named on stderr, and under "unknown" in JSON.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal, cast

import typer

from harken.cli.common import AsJson, Beam, FileFormat, ModelFolder, ReplaceBytes, TextColumn, examples, load_for
from harken.cli.live_input import LiveInput, live_stdin
from harken.cli.messages import logger
from harken.cli.progress import line_progress, size_of
from harken.cli.search_options import PANEL, models_and_file, weights_of, with_search_options
from harken.errors import UserError
from harken.files import open_output
from harken.tasks.interface import MAX_COUNT, Reading
from harken.tasks.registry import job_of
from harken.tasks.translate.interface import INTERFACE
from harken.tasks.translate.output_file import Format, OutputFile, one_line, pharaoh, record_of

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

NOTED = 5  # lines with unknown words that are named one by one
NOTED_LONG = 100  # lines that are too long
Write = Callable[[str], None]  # of text that ends with a line feed


@examples(*INTERFACE.examples)
@with_search_options
def translate(
    model: ModelFolder,
    file: Annotated[
        Path | None,
        typer.Argument(help=INTERFACE.input.argument.help),
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
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of stdout.")] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Like --out, and continue the file where a killed job left it.")
    ] = None,
    long_lines: Annotated[
        Literal["split", "copy"],
        typer.Option(help="Lines longer than the model reads: translate them in parts, or copy them."),
    ] = "split",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Batches translated at once. Default: one per CPU core.")
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_COUNT, help="Lines sorted by length together. Default: 16 at first, then 4,096."),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where to translate: on this machine, or on the Ray cluster of RAY_ADDRESS (with --out)."),
    ] = "local",
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
    if resume is not None and out is not None:
        raise UserError("--out and --resume both name the output; keep one of them")
    if engine == "ray":
        from harken.serving.ray.cluster import import_ray

        if resume is None and out is None:
            raise UserError("--engine ray writes a file that can be resumed; name it with --out or --resume")
        import_ray("data")
    folders, file = models_and_file([path for path in (file, *(more or [])) if path is not None])
    translator = load_for("translate", model)
    given = {"prefix": prefix, "prefix_bias": prefix_bias, "require": require, "weights": weights_of(weights)}
    options = {**(search or {}), **{name: value for name, value in given.items() if value not in (None, "", [])}}
    target = resume or out
    if (alternatives or stream) and (as_json or scores or alignments or nbest > 1 or target or alternatives * stream):
        name, printed = ("--stream", "plain text") if stream else ("--alternatives", "index ||| text ||| score")
        raise UserError(f"{name} prints {printed}; leave other formats and files out")
    if target is not None and file is not None and target.exists() and file.exists() and target.samefile(file):
        raise UserError(f"{target} is the input itself, which the output would replace; choose another output")
    if target is not None and alignments is not None:
        raise UserError("--out and --resume do not write --alignments; --json has the links beside each translation")
    lines, live = open_live(translator, file, form, text_column, replace)
    output = None
    if target is not None:
        formats = {"nbest": nbest, "scores": scores, "json": as_json, "format": form, "text_column": text_column}
        from harken.kernels.settings import kernels_enabled

        asked = {**options, **formats, "beam": beam, "batch": batch, "long_lines": long_lines}
        asked["kernels"] = kernels_enabled()
        source = None if file is None or str(file) == "-" else file
        record = record_of(translator, [model, *folders], source, asked, resume is not None)
        output = OutputFile(target, record, resume is not None, grouped=nbest > 1 and not as_json, report=logger.info)
        if output.is_complete:
            logger.info(f"{target} is complete: it has {output.done:,} lines")
            return
    if folders:
        options["ensemble"] = [load_for("translate", folder) for folder in folders]
    if alternatives:
        options.pop("prefix", None)
        shown = Format(nbest=alternatives + 1)
        for index, line in enumerate(lines):
            others = translator.alternatives(line, prefix, alternatives, beam=beam, **options)
            print_now(shown.text(index, line, others))
        return
    if stream:
        for line in lines:
            for part in translator.stream(line, beam=beam, **options):
                print(one_line(part), end="", flush=True)
            print(flush=True)
        return
    with ExitStack() as stack:
        links = None if alignments is None else stack.enter_context(open_output(alignments))
        is_watched = target is not None or (live is None and not sys.stdout.isatty())
        tick = stack.enter_context(line_progress(is_watched, size_of(file) if form in ("auto", "lines") else None))
        write, done = (print_now, 0) if output is None else (output.write, output.done)
        pending, notes, shown = deque[str](), Notes(), Format(as_json, scores, nbest)

        def read() -> Iterator[str]:
            for number, line in enumerate(lines):
                if number < done:
                    tick(line, False)
                else:
                    pending.append(line)
                yield line

        if engine == "ray" and output is not None:
            from harken.cli.jobs.translate_ray import ShardJob, absolute_files, translate_on_cluster

            translator.request(nbest, beam=beam, **options)  # what is wrong with the options is told now
            options.pop("ensemble", None)
            job = ShardJob(
                tuple(str(folder.expanduser().absolute()) for folder in (model, *folders)),
                translator.device.type,
                shown.text,
                nbest,
                beam,
                as_json,
                long_lines,
                absolute_files(options),
            )
            if done:
                logger.info(f"Continuing {target} after {done:,} lines")
            stack.enter_context(output)
            translate_on_cluster(lines, job, output, notes, tick, batch, workers)
            notes.end()
            return
        translated = translator.translate_lines(
            read(),
            nbest,
            beam,
            attention=alignments is not None or as_json,
            workers=workers,
            window=batch,
            skip=done,
            long_lines=long_lines,
            available=None if live is None else live.available,
            report=notes.note_long,
            **options,
        )
        if output is not None:
            if done:
                logger.info(f"Continuing {target} after {done:,} lines")
            stack.enter_context(output)
            translator.prepare()  # else a continued job may use another decoder than the one that began it
        for index, translations in enumerate(translated, start=done):
            source_line = pending.popleft()
            write(shown.text(index, source_line, translations))
            notes.note_unknown(index, translations[0].unknown_words if translations and translations[0].unknown else [])
            if links is not None:
                links.writelines(f"{line}\n" for line in [pharaoh(best, model) for best in translations] or [""])
            tick(source_line, True)
    notes.end()


def open_live(
    translator: Translator, file: Path | None, form: str, column: str | None, replace: bool
) -> tuple[Iterator[str], LiveInput | None]:
    """The lines to translate, and standard input where they come from it and it may pause."""
    from harken.data.io.files import decode_lines

    live = live_stdin() if (file is None or str(file) == "-") and form in ("auto", "lines") and column is None else None
    if live is None:
        reading = Reading(form, column, replace, logger.info)
        return INTERFACE.input.read(job_of(translator.recipe.task), translator, file, reading, None), None
    return decode_lines(cast(BinaryIO, live), "stdin", report=logger.info if replace else None), live


class Notes:
    """Notes on stderr about single lines; after the first they are only counted."""

    def __init__(self) -> None:
        self.lines = self.unknown = self.long = 0

    def note_long(self, index: int, text: str) -> None:
        """A line is longer than the model reads."""
        self.long += 1
        if self.long <= NOTED_LONG:
            logger.info(f"line {index + 1} {text}")

    def note_unknown(self, index: int, words: Sequence[str]) -> None:
        """Count a line, and name its words that the model has never seen."""
        self.lines += 1
        if words:
            self.unknown += 1
            if self.unknown <= NOTED:
                logger.info(f"line {index + 1}: {unknown_note(words)}")

    def end(self) -> None:
        """Say how many there were."""
        if self.long > NOTED_LONG:
            logger.info(f"{self.long:,} of {self.lines:,} lines are longer than the model reads")
        if self.unknown > NOTED:
            logger.info(
                f"{self.unknown:,} of {self.lines:,} lines have words that the model has never seen; "
                "--json names them all"
            )


def print_now(text: str) -> None:
    """To stdout, without delay."""
    sys.stdout.write(text)
    sys.stdout.flush()


def unknown_note(words: Sequence[str]) -> str:
    """The note about words that the model has never seen.

    >>> unknown_note(["zebra"])
    'the model has never seen zebra, so the translation is a guess there'
    """
    shown = ", ".join(word if len(word) <= 40 else f"{word[:40]}..." for word in words[:NOTED])
    more = f" and {len(words) - NOTED:,} more words" if len(words) > NOTED else ""
    return f"the model has never seen {shown}{more}, so the translation is a guess there"
