"""A job: what one kind of task needs around the one trainer (`harken.tasks.registry` knows where).

A job says how a run is prepared and what becomes of its folder; the bases do the rest:

    artifacts        what is learnt and kept beside the weights       `harken.tasks.artifacts`
    SequenceTask     batches, loss and sums for the trainer           `harken.tasks.sequence_task`
    Predictor        the folder as an object to use                   `harken.tasks.predictor`
    Summary          the card and the first lines of a run, from facts

`Job.evaluate` scores a split of the model's own corpus, one of `Job.splits`, or files, as `Job.read_files` reads them.

`docs/how-to/extend.md` has a whole job in one file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from harken.data.fingerprints import InputFile
from harken.errors import UserError
from harken.paths import Place, paths_in
from harken.recipe.paths import is_pattern, location
from harken.tasks.baselines import compare
from harken.tasks.interface import Form
from harken.tasks.operations import MAX_TRACED
from harken.tasks.results import Show, as_result
from harken.tasks.scores import Scores
from harken.tasks.splits import describe_split, find_split
from harken.training.log import NOT_METRICS
from harken.training.task import Task

if TYPE_CHECKING:
    from harken.data.text.inputs import Inputs
    from harken.recipe import Recipe
    from harken.tasks.artifacts import Artifact
    from harken.tasks.baselines import Baseline
    from harken.tasks.interface import Interface
    from harken.tasks.predictor import Predictor, Progress
    from harken.tasks.results import Result
    from harken.training.config import Decision


class Drawable(Protocol):
    """A figure that `harken attention` can show: a `harken.inspection` picture, or anything with these methods."""

    def to_terminal(self) -> str:
        """Lines of text."""

    def to_dict(self) -> dict[str, Any]:
        """The numbers in it, for JSON."""

    def save(self, path: str | Path) -> Path:
        """Write .html, .svg or .png."""


@dataclass(frozen=True)
class Prepared:
    """A run that can start: the task to train, and what to say of it."""

    task: Task
    title: str  # of the card
    facts: dict[str, str]  # for the card: data, vocabulary ...
    lines: list[str]  # for the user
    flops_per_token: float  # of training on one term of the loss
    data: Any = None  # the corpus; where it has `digests()`, a change of its parts is noticed on resuming
    baseline: Baseline | None = None  # that the model is compared with
    sizes: Sequence[Any] = ()  # recipes of this and of smaller networks, where the recipe leaves the size open
    resize: Callable[[Any], Prepared] | None = None  # the same task with the network of another of these recipes
    decisions: tuple[Decision, ...] = ()  # values of [data] that the recipe leaves open

    def with_baseline(self, baseline: Baseline) -> Prepared:
        """The same run beside a baseline, which is shown when it starts."""
        return replace(self, baseline=baseline, lines=[*self.lines, baseline.line])


@dataclass
class Summary:
    """A run as facts; the card's title and table and the lines in the terminal are made from them.

    >>> given = {"data_summary": "2 classes", "input_summary": "911 word pieces"}
    >>> summary = Summary("opinions", "recurrent", 6000, 600, "examples", **given)
    >>> print(*summary.lines(parameters=123456), sep="\\n")
    opinions: 6,000 training examples, 600 for validation, 2 classes
    recurrent: 123,456 parameters, 911 word pieces
    >>> summary.card()
    {'data': 'opinions: 6,000 training examples, 600 for validation', 'input': '911 word pieces'}
    """

    data: str  # name of the corpus
    model: str  # the network in a few words
    train: int
    valid: int
    unit: str = "examples"
    data_summary: str = ""  # of the data, after the counts
    input_summary: str = ""  # what goes into the network
    languages: str = ""  # beside the name of the corpus, in the title
    skipped: Mapping[str, int] = field(default_factory=dict)  # reason -> how many ...
    skipped_unit: str = ""  # ... lines, for one; by default the unit
    tests: Mapping[str, int] = field(default_factory=dict)  # name of a test -> its examples
    facts: Mapping[str, str] = field(default_factory=dict)  # more rows of the card
    notes: Sequence[str] = ()  # more lines: pretrained embeddings ...

    @property
    def title(self) -> str:
        """The title of the card."""
        return f"{self.data}{' ' * bool(self.languages)}{self.languages}, {self.model}"

    @property
    def count(self) -> str:
        """The numbers of examples to train, validate and test on."""
        tests = "".join(f", {count:,} in {name}" for name, count in self.tests.items())
        return f"{self.data}: {self.train:,} training {self.unit}, {self.valid:,} for validation{tests}"

    def card(self) -> dict[str, str]:
        """Rows of the card."""
        rows = {"data": self.count, **self.facts}
        if self.input_summary and not {"input", "vocabulary"} & set(rows):
            rows["input"] = self.input_summary
        return rows

    def lines(self, parameters: int) -> list[str]:
        """The lines for the user as a run starts: data, model, notes, and what was left out."""
        first, second = (", ".join(filter(None, parts)) for parts in (
            (self.count, self.data_summary), (f"{self.model}: {parameters:,} parameters", self.input_summary),
        ))  # fmt: skip
        skipped = (
            f"skipped {count:,} {self.skipped_unit or self.unit}: {reason}" for reason, count in self.skipped.items()
        )
        return [first, second, *self.notes, *skipped]

    def prepared(self, task: Task, flops_per_token: float, data: Any = None) -> Prepared:
        """A run of this task with this summary, on this corpus."""
        parameters = sum(parameter.numel() for parameter in task.model.parameters())
        return Prepared(task, self.title, self.card(), self.lines(parameters), flops_per_token, data)


def format_counts(labels: Iterable[str] | Mapping[str, int], most: int = 20) -> str:
    """Labels with their counts, the most frequent first, for the card; labels may be counted already.

    >>> format_counts(["b", "a", "b"])
    '2: b (2), a (1)'
    """
    counts = Counter(labels)
    shown = ", ".join(f"{label} ({count:,})" for label, count in counts.most_common(most))
    return f"{len(counts)}: {shown}{' ...' if len(counts) > most else ''}"


def format_skipped(skipped: Mapping[str, int]) -> str:
    """Format the examples that were left out, for the card.

    >>> format_skipped({"empty side": 1200}), format_skipped({})
    ('1,200 empty side', 'none')
    """
    return ", ".join(f"{count:,} {reason}" for reason, count in skipped.items()) or "none"


def files_at(declared: Place) -> list[InputFile]:
    """The file or folder of one path, or all files that fit a pattern."""
    path = location(declared)
    if path is None or declared.kind.is_base or declared.kind.is_output:
        return []
    if not is_pattern(path) or os.path.exists(path):
        return [InputFile(declared.key, Path(path))]
    return [InputFile(declared.key, Path(file), os.path.basename(file)) for file in sorted(glob(path, recursive=True))]


class FileReading(NamedTuple):
    """Options of `harken evaluate` on how files are read, where not as the training data."""

    format: str = "auto"
    text_column: str | None = None
    label_column: str | None = None
    names: Mapping[str, str] | None = None  # the labels of the files -> those of the training data


class Job:
    """One kind of task."""

    recipe: ClassVar[type[Recipe]]  # the class of its recipes; of a job that ships, recipe.py has it
    predictor: ClassVar[type[Predictor[Any, Any]]]  # what `load` gives
    interface: ClassVar[Interface | None] = None  # of its command, route and form; None: it has none of them
    artifacts: ClassVar[tuple[Artifact[Any], ...]] = ()  # what `prepare` may write beside the weights
    options: ClassVar[frozenset[str]] = frozenset()  # of the command line that this job takes and others do not
    estimator: ClassVar[str | None] = None  # "module:class"; None: derived from the columns that the recipe declares
    paired_metric: ClassVar[str | None] = "exact"  # of `compare_systems`, for paired tests of outputs; None: no tests
    scored_files: ClassVar[str] = "files"  # what may be scored in place of a split

    @property
    def usage(self) -> str:
        """A command that puts a model to work; {} is its folder."""
        return self.interface.usage_line if self.interface else "harken inspect {}"

    @property
    def example_input(self) -> str:
        """An example for hints on `harken inspect` and `harken attention`."""
        return (self.interface and self.interface.input.example) or "a sentence"

    # For `load_table`: the key of `[data]` that a table in memory takes the place of, and those that go with it.
    table_key: ClassVar[str] = "train"
    table_instead_of: ClassVar[tuple[str, ...]] = ("corpus", "dir", "valid", "test")

    def prepare(self, recipe: Any, folder: Path, resuming: bool) -> Prepared:
        """Read the data, learn or (resuming) load the artifacts, and build the model.

        Raises:
            UserError: bad data.
        """
        return self._prepare(recipe, self.load_data(recipe), folder, resuming)

    def prepare_table(self, recipe: Any, table: dict[str, list[Any]], folder: Path, resuming: bool) -> Prepared:
        """Prepare a run as `prepare` does, of a table in memory.

        Raises:
            UserError: bad data, or a job that reads no tables.
        """
        return self._prepare(recipe, self.load_table(recipe, table), folder, resuming)

    def _prepare(self, recipe: Any, data: Any, folder: Path, resuming: bool) -> Prepared:
        folder.mkdir(parents=True, exist_ok=True)
        return self.prepare_data(recipe, data, folder, resuming)

    def prepare_data(self, recipe: Any, data: Any, folder: Path, resuming: bool) -> Prepared:
        """Prepare a run of data that `load_data` or `load_table` gave, in a folder that is there."""
        raise NotImplementedError(f"{type(self).__name__} has neither prepare nor prepare_data")

    def load_data(self, recipe: Any) -> Any:
        """The corpus that the recipe's `[data]` names, split and checked as `prepare` reads it.

        Raises:
            UserError: what `harken train` would refuse: missing, empty or unreadable files, unequal lines ...
        """
        raise UserError(f"the data of the task {recipe.task!r} cannot be read on its own; its job has no load_data")

    def input_files(self, recipe: Any) -> list[InputFile]:
        """Every file and folder that a run of the recipe reads; by default all values of the types in `harken.paths`.

        Raises:
            UserError: a file that says which others are read is missing or damaged.
        """
        return [file for declared in paths_in(recipe) for file in files_at(declared)]

    def load(self, folder: Path, recipe: Any, device: str) -> Any:
        """The model of a finished folder, as an object to use.

        Raises:
            UserError: the folder does not hold together.
        """
        return self.predictor.load(folder, recipe, device)

    def read_table(self, recipe: Any, table: dict[str, list[Any]]) -> Any:
        """The examples of a table in memory as `held_out` gives those of a split, for the score of an estimator.

        Raises:
            UserError: bad data, or a job that reads no tables.
        """
        raise UserError(f"examples of the task {recipe.task!r} are not read from a table; its job has no read_table")

    def open(self, folder: Path, recipe: Any, device: str) -> Any:
        """`load`, with a network that is no larger than the weights allow and that refuses to give no finite numbers.

        Raises:
            UserError: the folder does not hold together.
        """
        from harken.models.base import check_outputs  # imports torch
        from harken.training.opening import fitting_weights

        with fitting_weights(folder):
            model = self.load(folder, recipe, device)
        if hasattr(model, "model"):  # a job of one's own may give any object
            model.model.register_forward_hook(check_outputs)
        return model

    def open_quickly(self, folder: Path, recipe: Any, device: str, report: Callable[[str], None]) -> Any:
        """The model of a finished folder for a process that applies it; by default that of `open`.

        Args:
            report: called with a line about how it is opened.

        Raises:
            UserError: the folder does not hold together.
        """
        return self.open(folder, recipe, device)

    def prepare_opening(self, model: Any) -> bool:
        """Store what `open_quickly` needs of a loaded model; False where there is no such thing, or it is not kept."""
        return False

    def load_table(self, recipe: Any, table: dict[str, list[Any]]) -> Any:
        """The corpus as `load_data` gives it, of a table in memory whose columns the recipe's `[data]` names.

        Raises:
            UserError: bad data, or a job that reads no tables.
        """
        raise UserError(
            f"a run with the task {recipe.task!r} takes no table in memory; save it as a file and name that, by "
            'overrides=["data.train=FILE"]'
        )

    def artifact_names(self) -> frozenset[str]:
        """The names of the files that `prepare` may have written before a run was killed."""
        return frozenset[str]().union(*(artifact.names for artifact in self.artifacts))

    def evaluate(self, model: Any, split: str | None, files: list[Path], progress: Progress, **options: Any) -> Scores:
        """Score a loaded model on `files`, or on a split of its own corpus (see `named_split`), for `harken evaluate`.

        Args:
            options: the fields of `FileReading`, and what `score` takes.

        Raises:
            UserError: no such split, or files that do not fit.
        """
        reading = FileReading(**{name: options.pop(name) for name in FileReading._fields if name in options})
        notes: list[str] = []
        name = None
        if files:
            examples, notes = self.read_files(model, files, reading)
        else:
            name, examples = self.named_split(model, split)
        score: Any = self.score
        scores: Scores = score(model, examples, progress, **options)
        scores.notes += notes
        if name is not None:
            scores.split = describe_split(
                getattr(model.recipe, "data", None), name, model.recipe.cuts_at_end, scores.count
            )
        if baseline := self.refit_baseline(model, examples):
            compare(scores, model.folder, name, baseline)
        return scores

    def splits(self, data: Any) -> Mapping[str, Any]:
        """The parts of a corpus of `load_data` that a model can be scored on, by name."""
        return {"valid": data.valid, **data.tests}

    def named_split(self, model: Any, split: str | None) -> tuple[str, Any]:
        """The name of a split of the model's own corpus, and its examples; the test, else the validation where None.

        Raises:
            UserError: no such split, or a model whose recipe names no data, such as an adopted one.
        """
        if problem := self.names_no_data(model):
            raise UserError(f"{problem}; give a file of examples to read")
        data = self.load_data(model.recipe)
        splits = self.splits(data)
        name = find_split(data.name, splits, split, remedy=self.scored_files)
        return name, splits[name]

    def names_no_data(self, model: Any) -> str | None:
        """Why a model has no corpus of its own, such as an adopted one; None where it has."""
        try:
            model.recipe.require_data(f"the recipe of {model.folder}")
        except UserError as problem:
            return str(problem.args[0].partition(":")[0])
        return None

    def held_out(self, model: Any, split: str | None, files: Sequence[Path] = ()) -> Any:
        """The examples of files, or where there are none those of `named_split`."""
        return self.read_files(model, files, FileReading())[0] if files else self.named_split(model, split)[1]

    def read_files(self, model: Any, files: Sequence[Path], reading: FileReading) -> tuple[Any, list[str]]:
        """The examples of files as `held_out` gives those of a split, and notes on how they were read.

        Raises:
            UserError: files that do not fit.
        """
        raise UserError(f"harken evaluate reads no files for the task {model.recipe.task!r}; name a --split")

    def score(self, model: Any, examples: Any, progress: Progress) -> Scores:
        """Score a loaded model on examples of `held_out` or `read_files`; by default by its own `evaluate`.

        A job with `options` takes them as keyword arguments here, in `attention_figure` and in `examples`.

        Raises:
            UserError: examples that do not fit, or a job without scores.
        """
        if not hasattr(model, "evaluate"):
            raise UserError(f"harken evaluate is not available for the task {model.recipe.task!r}")
        scores: Scores = model.evaluate(examples, progress=progress)
        return scores

    def refit_baseline(self, model: Any, examples: Any) -> Callable[[], Baseline] | None:
        """A function that fits the baseline of a model anew and scores it on examples; None for a job without one."""
        return None

    def predict(
        self, model: Any, examples: Sequence[Any], options: Any, progress: Progress
    ) -> Iterable[Result | str | Mapping[str, Any]]:
        """The results of a loaded model, one for each example; `interface` says what examples and options are.

        Raises:
            UserError: examples that the model cannot read.
        """
        raise UserError(f"harken predict is not available for the task {model.recipe.task!r}")

    def stream(self, model: Any, example: Any, options: Any, cancelled: Callable[[], bool]) -> Iterator[str]:
        """The parts of one result, as they become certain; for an interface that `is_streamed`.

        Raises:
            UserError: as `predict`; or the options leave nothing to stream.
        """
        raise UserError(f"{model.recipe.task} cannot be streamed")

    def figure(self, results: Sequence[Any]) -> Drawable:
        """A figure of all results of a command, for the option --out of an interface with a `figure`."""
        raise NotImplementedError

    def context_shape(self, recipe: Any) -> tuple[int, int] | None:
        """(layers, width) of the vectors that a model gives each word in its sentence; None where it gives none."""
        return None

    def reads_texts(self, model: Any) -> bool:
        """Whether examples are texts, and not signals."""
        return True

    def read_inputs(self, model: Any, path: Path | None, form: str, column: str | None) -> Inputs:
        """The examples of a file (None: stdin) in the format of the model's training data.

        Raises:
            UserError: an unknown format, or a file that cannot be read.
        """
        raise UserError(f"a model of the task {model.recipe.task!r} reads lines of text; leave --format out")

    def unseen_words(self, model: Any, example: Any) -> list[str]:
        """The words of an example with parts that training did not have; the answer is a guess there."""
        return []

    def attention_figure(self, model: Any, example: str) -> Drawable:
        """Draw the attention of a model to one example (a text, or the path of a file), for `harken attention`.

        Raises:
            UserError: the model has no attention.
        """
        raise UserError(f"a model with the task {model.recipe.task!r} has no attention to show")

    def example_of(self, model: Any, text: str) -> Any:
        """An example for `predict` from a text, or from the path of a file where the job reads files.

        Raises:
            UserError: there is none in it.
        """
        if not text.strip():
            raise UserError("the input is empty; type some words")
        return text

    def form(self, model: Any) -> Form:
        """The input that the form of a model in the studio takes."""
        assert self.interface is not None
        taken = self.interface.input
        return Form(taken.example, taken.endings, takes_text=not taken.endings)

    def show(self, model: Any, text: str, options: Any) -> Show:
        """Predict for the studio: the rows of a result, and its figure or a figure of the attention.

        Raises:
            UserError: an input that the model cannot read.
        """
        (value,) = self.predict(model, [self.example_of(model, text)], options, lambda done: None)
        result = as_result(value)
        picture = result.figure()
        if picture is None and type(self).attention_figure is not Job.attention_figure:
            picture = self.attention_figure(model, text)
        return Show(result.rows(), picture)

    def serve_gates(self, model: Any, items: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> list[Any]:
        """Every gate, candidate and state over the steps of texts; with `units` each unit, else summaries."""
        from harken.inspection import gates

        if not self.reads_texts(model):  # it would open a text as the path of a file, which no client may name
            raise UserError("this model reads signals; it shows nothing of a text")
        results = []
        for item in items:
            if not item["text"].strip() or len(item["text"]) > MAX_TRACED:
                raise UserError(f"gates are shown of a text with 1 to {MAX_TRACED} characters")
            results.append(gates(model, item["text"], target=item.get("target")).to_dict(bool(options["units"])))
        return results

    def facts(self, model: Any) -> dict[str, Any]:
        """Further facts about a model for `/v1/models`."""
        return {}

    def prepare_serving(self, model: Any) -> None:
        """Load what a served model will need before the first request; most need nothing more."""

    def examples(self, model: Any, split: str, files: Sequence[Path] = ()) -> Sequence[Any]:
        """Examples of files, or of a split of the model's own corpus, for `harken inspect --gradients`.

        Raises:
            UserError: no such split, or a job without this analysis.
        """
        return list(self.held_out(model, split, files))

    def comparison(self, recipe: Any, metrics: Sequence[dict[str, Any]]) -> dict[str, str]:
        """Rows that compare a fine-tuned model with its start, for the card and the end of a run; {} for others."""
        return {}

    def validation(self, best: dict[str, Any]) -> str:
        """The best validation, for the card; `best` is its line of metrics.jsonl."""
        return ", ".join(f"{name} {value:.4g}" for name, value in best.items() if name not in NOT_METRICS)
