"""The interface of a job, declared once; its command, HTTP route and studio form are derived from it.

    INTERFACE = Interface(
        verb="classify",                      # harken classify, POST /v1/classify
        help="Label texts or signals: one line out for every example in.",
        input=Examples(),                     # what it reads, and how a command, a request and a form give it
        options=ClassifyOptions,              # a dataclass whose fields say what they mean and what they allow
    )

    @dataclass(frozen=True)
    class ClassifyOptions(Options):
        top: Annotated[int, Option("the N likeliest labels", ge=1)] = 1

`Job.predict` turns examples and options into results (`harken.tasks.results`). Nothing here imports torch, pydantic or
typer: `harken --help` and the HTTP process read interfaces alone.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from harken.errors import UserError
from harken.search.descriptions import OPTIONS as SEARCH_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harken.tasks.job import Job

MAX_SEED = 2**63 - 1  # what the random generators of torch and numpy both take
MAX_COUNT = 1_000_000  # of anything that is asked for by number and kept in memory
MAX_SERVED_BEAM = 64  # hypotheses that a request may ask for
BATCH = 256  # examples that are read before they are worked on
SEARCH_FLAGS = {"banned": "--ban", "diversity_groups": "--groups", "language_model": "--lm"}
SEARCH_PANEL = "Search"  # of the help, with the keys of the recipe's `[search]` table
LINES = "lines"  # the format of a file with one example on each line


@dataclass(frozen=True)
class Option:
    """The meaning and the bounds of one option; `Annotated[int, Option(...)]` is the type of its field."""

    description: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    served_le: float | None = None  # the bound for a request, where that is lower
    min_length: int | None = None  # of a text or a list
    max_length: int | None = None
    in_command: bool = True
    in_request: bool = True
    flag: str | None = None  # on the command line; by default --name
    panel: str | None = None  # of the help text
    is_hidden: bool = False
    slider: tuple[float, float, float] | None = None  # least, most and step in the studio


class Field(NamedTuple):
    """One field of a dataclass of options."""

    name: str
    kind: Any  # its type, without the annotation
    default: Any  # dataclasses.MISSING where there is none
    option: Option


def fields_of(options: type) -> dict[str, Field]:
    """The annotated fields of a dataclass.

    >>> @dataclass
    ... class Example:
    ...     top: Annotated[int, Option("how many", ge=1)] = 1
    >>> fields_of(Example)["top"].option.ge
    1
    """
    return _fields(options)


@cache
def _fields(options: type) -> dict[str, Field]:
    hints = get_type_hints(options, include_extras=True)
    fields = {}
    for declared in dataclasses.fields(options):
        kind = hints[declared.name]
        if get_origin(kind) is Annotated:
            kind, option = get_args(kind)
            default = declared.default
            if declared.default_factory is not dataclasses.MISSING:
                default = declared.default_factory()
            fields[declared.name] = Field(declared.name, kind, default, option)
    return fields


def search_fields(without: Collection[str] = ()) -> dict[str, Field]:
    """The options of a search on the command line, one for each key of the recipe's `[search]` table."""
    fields = {}
    for name, known in SEARCH_OPTIONS.items():
        if name != "beam" and name not in without:
            option = Option(known.description, in_request=False, flag=SEARCH_FLAGS.get(name), panel=SEARCH_PANEL)
            fields[name] = Field(name, known.kind | None, None, option)
    return fields


class Form(NamedTuple):
    """The input that the form of a model in the studio takes."""

    example: str
    endings: tuple[str, ...] = ()  # of files
    choices: list[str] | None = None  # in place of a text
    takes_text: bool = True  # False: nothing, or a file


class CommandLine(NamedTuple):
    """The arguments of a command other than its model and options."""

    value: Any  # of the argument that names the input
    as_json: bool
    out: Path | None


@dataclass(frozen=True)
class Options:
    """No options; the base of those of a job."""

    @property
    def is_streamable(self) -> bool:
        """Whether a command may print a result in parts with these options, where the interface `is_streamed`."""
        return True

    def check_command(self, command: CommandLine) -> None:
        """Check the options together with the rest of a command, before the model is loaded.

        Raises:
            UserError: they do not fit together.
        """

    def check_request(self) -> None:
        """Check the options of a request.

        Raises:
            UserError: they ask for too much.
        """


@dataclass(frozen=True)
class Reading:
    """The way in which a command reads its input."""

    form: str = "auto"
    column: str | None = None
    replace: bool = False
    report: Callable[[str], None] = print  # called with a note on how a file is read

    def lines(self, file: Path | None) -> Iterator[str]:
        """The lines of a file, or of stdin for None and `-`.

        Raises:
            UserError: a line is not UTF-8; with `replace` that is reported, and its bytes are replaced.
        """
        from harken.data.io.files import decode_lines, read_lines, require_file

        report = self.report if self.replace else None
        if is_stdin(file):
            return decode_lines(sys.stdin.buffer, "stdin", report=report)
        return read_lines(require_file(file), report=report)  # type: ignore[arg-type]


def is_stdin(file: Path | None) -> bool:
    """Whether an argument stands for standard input."""
    return file is None or str(file) == "-"


@dataclass(frozen=True)
class Argument:
    """The argument of a command that names its input."""

    name: str
    kind: Any
    help: str
    is_required: bool = False
    metavar: str | None = None


@dataclass(frozen=True)
class Input:
    """The input of a job; the base of all kinds.

    A request has the fields of `request`, which become items: dictionaries of plain values that a worker turns into the
    examples of `Job.predict`. A command has `argument`, which is read into the same examples.
    """

    argument: Argument
    example: str = ""  # for hints, and for the form of the studio
    label: str = "Text"  # of the form
    endings: tuple[str, ...] = ()  # of the files that the form takes; none where it takes texts
    has_formats: ClassVar[bool] = False  # whether the command takes --format and --text-column
    is_replaceable: ClassVar[bool] = False  # whether it takes --replace
    example_key: str | None = None  # under which --json repeats a text, or the number of another example
    opens_files: ClassVar[bool] = False  # whether the job itself opens the file that an example names
    is_many_lines: ClassVar[bool] = False  # whether all lines of a file are one example
    is_text: ClassVar[bool] = False  # whether an example is one text
    request: type = field(kw_only=True)  # a dataclass of annotated fields

    def items(self, body: Any) -> list[dict[str, Any]]:
        """The items of a request.

        Raises:
            UserError: they cannot be read.
        """
        return [{name: getattr(body, name) for name in fields_of(self.request)}]

    def examples(self, job: Job, model: Any, items: Sequence[Mapping[str, Any]]) -> list[Any]:
        """The examples of items, in the worker.

        Raises:
            UserError: the model reads something else.
        """
        return [item["text"] for item in items]

    def item_of(self, example: Any) -> dict[str, Any]:
        """The item of an example that a command read, for an operation; further fields of `request` are options."""
        return {"text": example}

    def names(self, item: Mapping[str, Any]) -> dict[str, str]:
        """The name of a result in an answer, as a field, where its item has a name."""
        return {}

    def opening(self, example: Any) -> str:
        """The text that a command prints before the parts of a streamed result."""
        return ""

    def read(self, job: Job, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Any]:
        """The examples of a command.

        Raises:
            UserError: they cannot be read.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class TextRequest:
    """One text or several."""

    text: Annotated[str | list[str], Option("one text, or several")]


@dataclass(frozen=True)
class Texts(Input):
    """A text on each line of a file or of stdin."""

    is_replaceable: ClassVar[bool] = True
    is_text: ClassVar[bool] = True
    argument: Argument = Argument("file", Path | None, "Texts, one a line; or stdin.")
    request: type = field(default=TextRequest, kw_only=True)  # has a field `text`

    def items(self, body: Any) -> list[dict[str, Any]]:
        texts = [body.text] if isinstance(body.text, str) else body.text
        others = {name: getattr(body, name) for name in fields_of(self.request) if name != "text"}
        return [{"text": text, **others} for text in texts]

    def read(self, job: Job, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Any]:
        return reading.lines(value)


@dataclass(frozen=True)
class ExampleRequest:
    """Texts or signals."""

    text: Annotated[str | list[str] | None, Option("one text, or several")] = None
    signals: Annotated[
        list[list[list[float]]] | None, Option("models of signals: frames (T, C) of each", in_command=False)
    ] = None


@dataclass(frozen=True)
class Examples(Texts):
    """Texts or signals, in lines or in a file of the format of the training data."""

    has_formats: ClassVar[bool] = True
    argument: Argument = Argument(
        "file", Path | None, "Texts as in training, or one a line; or stdin. For models of signals a file."
    )
    request: type = field(default=ExampleRequest, kw_only=True)

    def items(self, body: Any) -> list[dict[str, Any]]:
        if (body.text is None) == (body.signals is None):
            raise UserError("give either text or signals")
        if body.signals is None:
            return [{"text": text} for text in ([body.text] if isinstance(body.text, str) else body.text)]
        for signal in body.signals:
            if not signal or not signal[0] or len({len(frame) for frame in signal}) != 1:
                raise UserError("a signal is a list of frames with the same number of channels")
        return [{"signal": signal} for signal in body.signals]

    def examples(self, job: Job, model: Any, items: Sequence[Mapping[str, Any]]) -> list[Any]:
        import numpy as np

        return [item["text"] if "text" in item else np.asarray(item["signal"], np.float32) for item in items]

    def item_of(self, example: Any) -> dict[str, Any]:
        return {"text": example} if isinstance(example, str) else {"signal": example}

    def read(self, job: Job, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Any]:
        if job.reads_texts(model) and (
            reading.form == LINES or (is_stdin(value) and reading.form == "auto" and reading.column is None)
        ):
            return reading.lines(value)
        inputs = job.read_inputs(model, None if is_stdin(value) else value, reading.form, reading.column)
        if inputs.note is None:
            return inputs.values if not job.reads_texts(model) else reading.lines(value)
        reading.report(f"{inputs.note}; --format lines reads whole lines")
        return inputs.values


@dataclass(frozen=True)
class PromptRequest:
    """A text that may be empty."""

    text: Annotated[str, Option("the prompt")] = ""


@dataclass(frozen=True)
class Prompts(Input):
    """Texts as arguments of the command; `-` stands for what is piped in."""

    is_text: ClassVar[bool] = True
    argument: Argument = Argument(
        "prompts", list[str] | None, "What to go on from, in quotes; `-`: from stdin.", metavar="[PROMPT]..."
    )
    request: type = field(default=PromptRequest, kw_only=True)

    def opening(self, example: Any) -> str:
        return str(example)

    def read(self, job: Job, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Any]:
        prompts = value or ["" if sys.stdin.isatty() else "-"]
        return ("\n".join(reading.lines(None)) if prompt == "-" else prompt for prompt in prompts)


@dataclass(frozen=True)
class FileRequest:
    """An uploaded file; a route reads it from a form."""

    data: bytes = b""
    name: str = ""


@dataclass(frozen=True)
class Files(Input):
    """Files, which a request uploads; in place of a folder, the files in it."""

    opens_files: ClassVar[bool] = True
    argument: Argument = Argument("files", list[Path], "Files, folders, or - for a list on stdin.", is_required=True)
    request: type = field(default=FileRequest, kw_only=True)
    label: str = "A file"
    noun: str = "file"
    name_key: str = "file"  # under which an answer has the name of an upload

    def items(self, body: Any) -> list[dict[str, Any]]:
        return [{"data": body.data, "name": body.name}]

    def examples(self, job: Job, model: Any, items: Sequence[Mapping[str, Any]]) -> list[Any]:
        return [item["path"] for item in items]

    def item_of(self, example: Any) -> dict[str, Any]:
        return {"path": example, "name": Path(example).name}

    def names(self, item: Mapping[str, Any]) -> dict[str, str]:
        return {self.name_key: item["name"]}

    def read(self, job: Job, model: Any, value: Any, reading: Reading, options: Any) -> Iterator[Any]:
        for path in value:
            if str(path) == "-":
                yield from (Path(line.strip()) for line in reading.lines(None) if line.strip())
            elif path.is_dir():
                yield from self._in_folder(path)
            else:
                yield path

    def _in_folder(self, folder: Path) -> list[Path]:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in self.endings)
        if not files:
            raise UserError(f"{folder} holds no {self.noun} ({', '.join(self.endings)}); name files, or another folder")
        return files


@dataclass(frozen=True)
class Operation:
    """Work of a model on examples, under a name of its own: `POST /v1/VERB` and `harken VERB` are derived from it.

    The job has a method `serve_VERB(model, items, options)`, which gives a value that JSON can hold for each item
    (`Input.items`); jobs that share an operation declare the same object.
    """

    verb: str  # of the command and the route
    help: str  # of both: a sentence for the list of commands, then more
    input: Input
    options: type[Options] = Options
    _: KW_ONLY
    takes_search: bool = False  # whether requests have the keys of `[search]`, which `serve_VERB` gets as one option
    needs_recurrence: bool = False  # whether only models with recurrent layers have it
    changes_model: bool = False  # while it runs, by hooks for one: no search of a stream may use the model meanwhile
    changing_options: tuple[str, ...] = ()  # options with which it does

    def is_exclusive(self, options: Mapping[str, Any]) -> bool:
        """Whether nothing else may use the model while this runs with these options."""
        return self.changes_model or any(options.get(name) for name in self.changing_options)


@dataclass(frozen=True)
class Interface(Operation):
    """One job as its users meet it: its first operation, whose results are those of `Job.predict`, and the others."""

    _: KW_ONLY
    examples: tuple[str, ...] = ()  # of the command
    usage: str = ""  # the command that puts a model to work; {} is its folder
    unit: str = "examples"  # that a progress bar counts
    batch: int = BATCH  # examples that are given to `Job.predict` at once
    figure: str | None = None  # the stem of a file that --out may write; None: there is no figure of the results
    operations: tuple[Operation, ...] = ()  # further ones
    is_streamed: bool = False  # whether `Job.stream` gives a result in parts
    streams_in_thread: bool = False  # whether it computes them in a thread of its own
    is_live: bool = False  # whether the studio answers while somebody types
    has_languages: bool = False  # whether a request may name languages for a model, and go through several models
    runner: str | None = None  # "module:function" that runs the command, where its output can be resumed

    @property
    def usage_line(self) -> str:
        """The command that puts a model to work; {} is its folder."""
        return self.usage or f"harken {self.verb} {{}}"
