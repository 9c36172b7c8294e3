"""The sentences or signals that a recipe's `[data]` names, split into training, validation and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.files import require_file
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.prepared.examples import ExampleKind, StoredExamples, examples_folder, file_digests
from harken.data.prepared.stream import StreamedRows
from harken.data.series.framed import Framed, read_frames
from harken.data.splits import Parts, content_key, normalise, size_of, split_groups, without_held_out
from harken.data.text.inputs import place
from harken.data.text.locations import as_list
from harken.data.text.tagged import FORMATS, Tagged, as_tagged, format_of, iterate_tagged, read_tagged
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.tag.recipe import TagDataConfig

Example = Tagged | Framed


@dataclass
class TagCorpus(Parts):
    """What there is to learn from and to be scored on."""

    name: str
    train: Sequence[Example]
    valid: Sequence[Example]
    tests: dict[str, Sequence[Example]]
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training examples left out


def read_corpus(config: TagDataConfig) -> TagCorpus:
    """Everything that `[data]` names.

    Raises:
        UserError: files that are missing or broken, or nothing is left to train on.
    """
    if config.corpus:
        from harken.data.synthetic.phrasebook.splits import load_tagged_phrasebook

        made = load_tagged_phrasebook(config.seed, config.size)
        return TagCorpus("phrasebook", made.pop("train"), made.pop("valid"), dict(made))
    paths = files_of(config, config.train)
    is_text = not any(is_frames(config, path) for path in paths)
    folder = examples_folder(config.prepared, paths) if is_text else None
    if folder is not None:
        return _stream(config, paths, folder)
    train = read_files(config, paths)
    if config.valid is None:
        train, valid = split_off(train, config)
    else:
        valid = read_files(config, files_of(config, config.valid))
    tests: dict[str, Sequence[Example]] = {}
    if config.test is not None:
        tests["test"] = read_files(config, files_of(config, config.test))
    train, skipped = without_held_out(train, [valid, *tests.values()], example_key)
    return TagCorpus(_name(config, paths), train, valid, tests, skipped)


def _stream(config: TagDataConfig, paths: Sequence[Path], folder: Path) -> TagCorpus:
    """As `read_corpus`, with training sentences that are not in memory (`harken.data.prepared`)."""
    columns, name = (config.format, config.word_column, config.tag_column), _name(config, paths)
    kind = ExampleKind("tagged", lambda words, tags: Tagged(tuple(words), tuple(tags)), example_key)
    stored = StoredExamples(
        folder,
        name,
        kind,
        [file_digests(paths), columns],
        lambda skipped: (sentence for path in paths for sentence in iterate_tagged(path, *columns)),
    )
    valid = None if config.valid is None else read_files(config, files_of(config, config.valid))
    tests: dict[str, Sequence[Example]] = {}
    if config.test is not None:
        tests["test"] = read_files(config, files_of(config, config.test))
    sizes = {"valid": size_of(config.valid_size)} if valid is None else {}
    stream = stored.divide(sizes, config.seed, [*chain(valid or [], *tests.values())])
    valid = stream.held_out("valid") if valid is None else valid
    return TagCorpus(name, StreamedRows(stream, "train"), valid, tests, stream.skipped)


def _name(config: TagDataConfig, paths: Sequence[Path]) -> str:
    return config.name or paths[0].name.partition(".")[0]


def corpus_of_table(config: TagDataConfig, table: Mapping[str, list[Any]]) -> TagCorpus:
    """Sentences out of a table in memory: a list of words and a list of tags a row, some split off to validate on.

    Raises:
        UserError: a column that is not there, or words without tags.
    """
    names = [
        default if column is None else str(column)
        for column, default in ((config.word_column, "tokens"), (config.tag_column, "tags"))
    ]
    columns = read_table(table, names)
    refuse_gaps(columns, names)
    found: list[Example] = [*as_tagged(columns[names[0]], columns[names[1]], "the table")]
    train, valid = split_off(found, config)
    return TagCorpus(config.name or "table", train, valid, {})


def files_of(config: TagDataConfig, files: str | list[str] | None) -> list[Path]:
    """The files of a split, relative to `data.dir`."""
    return [expand_user(config.dir or ".") / file for file in as_list(files)]


def check_files(config: TagDataConfig) -> list[Path]:
    """All files that the recipe names, each of which is there.

    Raises:
        UserError: one is missing.
    """
    splits = (config.train, config.valid, config.test)
    return [require_file(path) for split in splits for path in files_of(config, split)]


def read_files(config: TagDataConfig, paths: Sequence[Path]) -> list[Example]:
    """The examples of some files, in the format of the recipe.

    Raises:
        UserError: as `read_tagged` and `read_frames`.
    """
    found: list[Example] = []
    for path in paths:
        if is_frames(config, path):
            found += read_frames(path)
        else:
            found += read_tagged(path, config.format, config.word_column, config.tag_column)
    return found


def read_other_files(
    config: TagDataConfig,
    paths: Sequence[Path],
    form: str = "auto",
    word_column: str | None = None,
    tag_column: str | None = None,
) -> list[Example]:
    """The examples of files that the recipe may not name, each in its own format, for `harken evaluate`.

    The columns of the recipe count where the format is that of its training files.

    Raises:
        UserError: an unknown format, or as `read_files`.
    """
    if form not in ("auto", *FORMATS, "frames"):
        raise UserError(f"--format {form} is not known for tags; choose from auto, {', '.join(FORMATS)}, frames")
    trained = (
        config.format if config.format != "auto" or not config.train else format_of(Path(as_list(config.train)[0]))
    )
    found: list[Example] = []
    for path in paths:
        chosen = form if form != "auto" else "frames" if path.suffix == ".npz" else format_of(path)
        own = config if chosen == trained else config.model_copy(update={"word_column": None, "tag_column": None})
        given = {"word_column": place(word_column), "tag_column": place(tag_column)}
        said = {key: value for key, value in given.items() if value is not None}
        found += read_files(own.model_copy(update={"format": chosen, **said}), [path])
    return found


def is_frames(config: TagDataConfig, path: Path) -> bool:
    """Whether the file holds signals and no words."""
    return config.format == "frames" or (config.format == "auto" and path.suffix == ".npz")


def split_off(examples: list[Example], config: TagDataConfig) -> tuple[list[Example], list[Example]]:
    """(train, valid): sentences with the same words, or equal signals, stay on one side.

    Raises:
        UserError: nothing would be left to train on.
    """
    parts = split_groups(
        [example_key(example) for example in examples], {"valid": size_of(config.valid_size)}, config.seed
    )
    return [examples[row] for row in parts["train"]], [examples[row] for row in parts["valid"]]


def example_key(example: Example) -> str:
    """The words of a sentence, or the content of a signal."""
    return normalise(" ".join(example.words)) if isinstance(example, Tagged) else content_key(example.frames)
