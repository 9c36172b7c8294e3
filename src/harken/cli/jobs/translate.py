"""`harken translate`: lines in, lines out, in order, as they come; `harken.tasks.translate.interface` has its options.

Files are sorted by length within a window and translated by all cores (`harken.tasks.translate.files.lines`).
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from harken.cli.common import load_for, other_job
from harken.cli.live_input import LiveInput, live_stdin
from harken.cli.messages import logger
from harken.cli.progress import Tick, line_progress, size_of
from harken.errors import UserError
from harken.files import open_output
from harken.tasks.interface import CommandLine, Reading, is_stdin, search_fields
from harken.tasks.registry import job_of
from harken.tasks.translate.files.output_file import Format, OutputFile, one_line, pharaoh, record_of
from harken.tasks.translate.interface import INTERFACE, OutputOptions

if TYPE_CHECKING:
    from harken.tasks.translate.translator import Translator

MARKS = '.,;:!?…"«»“”()'  # that are no part of a word in a note
NOTED = 5  # lines with unknown words that are named one by one
NOTED_LONG = 100  # lines that are too long


def run(model: Path, options: OutputOptions, reading: Reading, command: CommandLine) -> None:
    """Translate the input of a command.

    Raises:
        UserError: options that do not fit together, no translator, or an input that it cannot read.
    """
    options.check_command(command)
    if options.engine == "ray":
        from harken.serving.ray.cluster import import_ray

        import_ray("data")
    (*others, file), target = models_and_file(command.value or []), options.target
    if target is not None and file is not None and target.exists() and file.exists() and target.samefile(file):
        raise UserError(f"{target} is the input itself, which the output would replace; choose another output")
    search = search_options(options)
    if options.profile:
        from harken.search.dispatch import report_backends

        report_backends(logger.info)
    translator = open_translator(model, logger.info if options.profile else lambda line: None)
    lines, live = open_live(translator, file, reading)
    work = Work(translator, [model, *others], options, search, command.as_json)
    output = None if target is None else work.open_output(target, file, reading)
    if output is not None and output.is_complete:
        logger.info(f"{target} is complete: it has {output.done:,} lines")
        return
    if others:
        search["ensemble"] = [load_for("translate", folder) for folder in others]
    if options.alternatives:
        work.print_alternatives(lines)
    elif options.stream:
        for line in lines:
            for part in translator.stream(line, beam=options.beam, **search):
                print(one_line(part), end="", flush=True)
            print(flush=True)
    else:
        is_watched = target is not None or (live is None and not sys.stdout.isatty())
        with line_progress(is_watched, size_of(file) if reading.form in ("auto", "lines") else None) as tick:
            if output is not None and options.engine == "ray":
                work.translate_on_cluster(lines, output, tick)
            else:
                work.translate_here(lines, live, output, tick)
        work.notes.end()


def open_translator(folder: Path, report: Callable[[str], None]) -> Translator:
    """The translator of a model folder, without torch where the compiled search can run without it.

    Raises:
        UserError: it is no model folder, or was trained for another job.
    """
    from harken.api import load_quickly
    from harken.kernels.weights import freeze

    translator: Translator = load_quickly(folder, report)
    if translator.recipe.task != "translate":
        raise UserError(other_job(folder, translator.recipe.task, "translate"))
    freeze(translator)  # the command does not change its weights, so no call need compare them
    return translator


def models_and_file(paths: Sequence[Path]) -> list[Any]:
    """`M2 M3 FILE` after the first model: further model folders, and last the file to read, None for stdin.

    Raises:
        UserError: more than one file.
    """
    models = [path for path in paths if path.is_dir()]
    files = [path for path in paths if not path.is_dir()]
    if len(files) > 1:
        raise UserError(f"{files[0]} and {files[1]} are both files; give models first, then one file")
    return [*models, files[0] if files else None]


def search_options(options: OutputOptions) -> dict[str, Any]:
    """The options of `Translator.request` that were given."""
    names = ("prefix", "prefix_bias", "require", *search_fields())
    given = {name: getattr(options, name) for name in names} | {"weights": weights_of(options.weights)}
    return {name: value for name, value in given.items() if value not in (None, "", [])}


def weights_of(text: str | None) -> list[float] | None:
    """`2,1,1` as numbers.

    Raises:
        UserError: something else.
    """
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise UserError(f"--weights {text} is no list of numbers; write them like 2,1,1") from None


def open_live(translator: Translator, file: Path | None, reading: Reading) -> tuple[Iterator[str], LiveInput | None]:
    """The lines to translate, and standard input where they come from it and it may pause."""
    from harken.data.io.files import decode_lines

    is_plain = reading.form in ("auto", "lines") and reading.column is None
    live = live_stdin() if is_stdin(file) and is_plain else None
    if live is None:
        return INTERFACE.input.read(job_of(translator.recipe.task), translator, file, reading, None), None
    return decode_lines(cast(BinaryIO, live), "stdin", report=logger.info if reading.replace else None), live


@dataclass
class Work:
    """The models and the options of one command."""

    translator: Translator
    folders: list[Path]  # of all models
    options: OutputOptions
    search: dict[str, Any]  # options of `Translator.request`
    as_json: bool
    notes: Notes = field(default_factory=lambda: Notes())

    @property
    def format(self) -> Format:
        """The form in which the translations of a line are written."""
        return Format(self.as_json, self.options.scores, self.options.nbest)

    def open_output(self, target: Path, file: Path | None, reading: Reading) -> OutputFile:
        """The file of --out or --resume, with the record of what it is made of."""
        from harken.kernels.settings import kernels_enabled

        options, is_resumed = self.options, self.options.resume is not None
        settings = {name: getattr(options, name) for name in ("nbest", "scores", "beam", "batch", "long_lines")}
        settings |= {"json": self.as_json, "format": reading.form, "text_column": reading.column}
        settings |= {**self.search, "kernels": kernels_enabled()}
        source = None if is_stdin(file) else file
        record = record_of(self.translator, self.folders, source, settings, is_resumed)
        is_grouped = options.nbest > 1 and not self.as_json
        return OutputFile(target, record, is_resumed, grouped=is_grouped, report=logger.info)

    def print_alternatives(self, lines: Iterator[str]) -> None:
        """Print the translations of --alternatives, which go on from the prefix with different tokens."""
        options, shown = self.options, Format(nbest=self.options.alternatives + 1)
        search = {name: value for name, value in self.search.items() if name != "prefix"}
        for index, line in enumerate(lines):
            others = self.translator.alternatives(
                line, options.prefix, options.alternatives, beam=options.beam, **search
            )
            print_now(shown.text(index, line, others))

    def translate_here(
        self, lines: Iterator[str], live: LiveInput | None, output: OutputFile | None, tick: Tick
    ) -> None:
        """Translate on this machine, to stdout or to an output that may have some lines already."""
        options, translator = self.options, self.translator
        write, done = (print_now, 0) if output is None else (output.write, output.done)
        pending = deque[str]()

        def read() -> Iterator[str]:
            for number, line in enumerate(lines):
                if number < done:
                    tick(line, False)
                else:
                    pending.append(line)
                yield line

        with ExitStack() as stack:
            links = None if options.alignments is None else stack.enter_context(open_output(options.alignments))
            translated = translator.translate_lines(
                read(),
                options.nbest,
                options.beam,
                attention=links is not None or self.as_json,
                workers=options.workers,
                window=options.batch,
                skip=done,
                long_lines=options.long_lines,
                available=None if live is None else live.available,
                report=self.notes.note_long,
                **self.search,
            )
            if output is not None:
                stack.enter_context(self.continued(output))
                translator.prepare()  # else a continued job may use another decoder than the one that began it
            for index, translations in enumerate(translated, start=done):
                line, best = pending.popleft(), translations[0] if translations else None
                write(self.format.text(index, line, translations))
                self.notes.note_unknown(index, best.unknown_words if best is not None and best.unknown else [])
                if links is not None:
                    pairs = [pharaoh(translation, self.folders[0]) for translation in translations]
                    links.writelines(f"{pair}\n" for pair in pairs or [""])
                tick(line, True)

    def translate_on_cluster(self, lines: Iterator[str], output: OutputFile, tick: Tick) -> None:
        """Translate to an output on a Ray cluster."""
        from harken.cli.jobs.translate_ray import ShardJob, absolute_files, translate_on_cluster

        options = self.options
        self.translator.request(options.nbest, beam=options.beam, **self.search)  # refuses what is wrong with them
        job = ShardJob(
            tuple(str(folder.expanduser().absolute()) for folder in self.folders),
            self.translator.device.type,
            self.format.text,
            options.nbest,
            options.beam,
            self.as_json,
            options.long_lines,
            absolute_files({name: value for name, value in self.search.items() if name != "ensemble"}),
        )
        with self.continued(output):
            translate_on_cluster(lines, job, output, self.notes, tick, options.batch, options.workers)

    def continued(self, output: OutputFile) -> OutputFile:
        """The output, with a note where it has some lines already."""
        if output.done:
            logger.info(f"Continuing {self.options.target} after {output.done:,} lines")
        return output


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
    """Write a text to stdout, without delay."""
    sys.stdout.write(text)
    sys.stdout.flush()


def unknown_note(words: Sequence[str]) -> str:
    """The note about words that the model has never seen.

    >>> unknown_note(["zebra."])
    'the model has never seen zebra, so the translation is a guess there'
    """
    bare = [word.strip(MARKS) or word for word in words[:NOTED]]
    shown = ", ".join(word if len(word) <= 40 else f"{word[:40]}..." for word in bare)
    more = f" and {len(words) - NOTED:,} more words" if len(words) > NOTED else ""
    return f"the model has never seen {shown}{more}, so the translation is a guess there"
