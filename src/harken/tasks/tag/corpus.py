"""The sentences or signals that a recipe's `[data]` names, split into training, validation and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.parts import divide, file_digests, folder_for, read_parts
from harken.data.prepared.scan import RowKind
from harken.data.series.framed import Framed, read_frames
from harken.data.splits import Parts, content_key, held_out_sizes, normalise
from harken.data.text.inputs import place
from harken.data.text.locations import as_list
from harken.data.text.tagged import FORMATS, Tagged, as_tagged, format_of, iterate_tagged
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.tag.recipe import TagDataConfig

Example = Tagged | Framed


@dataclass
class TagCorpus(Parts):
    """A corpus of tagged examples: the training, validation and test parts."""

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

        corpus = load_tagged_phrasebook(config.seed, config.size)
        return TagCorpus("phrasebook", corpus.pop("train"), corpus.pop("valid"), dict(corpus))
    paths = files_of(config, config.train)
    is_text = not any(is_frames(config, path) for path in paths)
    name, columns = _name(config, paths), (config.format, config.word_column, config.tag_column)
    named = {"valid": config.valid, "test": config.test}
    given = {part: read_files(config, files_of(config, files)) for part, files in named.items() if files is not None}
    parts = read_parts(
        SENTENCES,
        lambda skipped: iterate_files(config, paths),
        held_out_sizes(config, given),
        config.seed,
        [*chain(*given.values())],
        folder=folder_for(config.prepared, paths) if is_text else None,
        name=name,
        contents=[file_digests(paths), columns],
    )
    held: dict[str, Sequence[Example]] = {**given, **parts.held}
    return TagCorpus(name, parts.train, held.pop("valid"), held, parts.skipped)


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
    examples: list[Example] = [*as_tagged(columns[names[0]], columns[names[1]], "the table")]
    parts = divide(SENTENCES, examples, held_out_sizes(config, []), config.seed, [])
    return TagCorpus(config.name or "table", parts.train, parts.held.pop("valid"), dict(parts.held))


def files_of(config: TagDataConfig, files: str | list[str] | None) -> list[Path]:
    """The files of a split, relative to `data.dir`."""
    return [expand_user(config.dir or ".") / file for file in as_list(files)]


def read_files(config: TagDataConfig, paths: Sequence[Path]) -> list[Example]:
    """The examples of some files, in the format of the recipe.

    Raises:
        UserError: as `read_tagged` and `read_frames`.
    """
    return list(iterate_files(config, paths))


def iterate_files(config: TagDataConfig, paths: Sequence[Path]) -> Iterator[Example]:
    """The same, one by one."""
    for path in paths:
        if is_frames(config, path):
            yield from read_frames(path)
        else:
            yield from iterate_tagged(path, config.format, config.word_column, config.tag_column)


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
    examples: list[Example] = []
    for path in paths:
        chosen = form if form != "auto" else "frames" if path.suffix == ".npz" else format_of(path)
        own = config if chosen == trained else config.model_copy(update={"word_column": None, "tag_column": None})
        given = {"word_column": place(word_column), "tag_column": place(tag_column)}
        chosen_columns = {key: value for key, value in given.items() if value is not None}
        examples += read_files(own.model_copy(update={"format": chosen, **chosen_columns}), [path])
    return examples


def is_frames(config: TagDataConfig, path: Path) -> bool:
    """Whether the file holds signals and no words."""
    return config.format == "frames" or (config.format == "auto" and path.suffix == ".npz")


def example_key(example: Example) -> str:
    """The words of a sentence, or the content of a signal."""
    return normalise(" ".join(example.words)) if isinstance(example, Tagged) else content_key(example.frames)


SENTENCES = RowKind("tagged", lambda words, tags: Tagged(tuple(words), tuple(tags)), example_key)
