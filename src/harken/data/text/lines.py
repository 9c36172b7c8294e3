"""Lines of text that are read each by itself, in splits: a generated corpus, or files whose short lines are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.data.io.files import MAX_LINE_BYTES, read_lines, require_file
from harken.data.parts import cut_files, line_reader
from harken.data.prepared.store import Store, prepared_folder
from harken.data.splits import cut_by_position, digest, normalise, without_held_out
from harken.data.text.locations import as_list
from harken.data.text.text_config import LinesConfig
from harken.errors import UserError
from harken.files import expand_user

SHORT = "too few words"  # why a line is no example; such lines are not counted


@dataclass
class Lines:
    """Lines to train, to validate and to test on."""

    name: str
    train: Sequence[str]
    valid: list[str]
    test: list[str]
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training lines left out

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`)."""
        return {"train": digest(self.train), "valid": digest(self.valid), "test": digest(self.test)}

    @property
    def held_out(self) -> dict[str, list[str]]:
        """The texts that a model can be scored on, by the name of the split."""
        return {"valid": self.valid, **({"test": self.test} if self.test else {})}


def read_line_splits(config: LinesConfig) -> Lines:
    """Everything that `[data]` names; training lines of large files stay on disk.

    Raises:
        UserError: a file is missing or not UTF-8, or too few lines are long enough.
    """
    if config.corpus:
        from harken.data.synthetic.phrasebook import load_phrasebook

        corpus = load_phrasebook(config.seed, train=config.size)
        made_train, made_valid, made_test = (
            [pair.source for pair in split] for split in (corpus.train, corpus.valid, corpus.tests["test"])
        )
        return Lines("phrasebook", made_train, made_valid, made_test)
    files = files_of(config, config.train)
    folder = prepared_folder(config.prepared, files)
    name = config.name or files[0].name.partition(".")[0]
    valid = read_files(config, files_of(config, config.valid))
    test = read_files(config, files_of(config, config.test))
    share = config.valid_size if config.valid is None else 0.0
    train: Sequence[str]
    if folder is None:
        return _split(name, read_files(config, files), share, valid, test, _too_few(config))
    settings = config.lowercase, config.min_words
    reader = line_reader(
        files,
        MAX_LINE_BYTES,
        normalise,
        lambda line: "" if len(line.split()) >= config.min_words else SHORT,
        (lambda columns: ([line.lower() for line in columns[0]],)) if config.lowercase else lambda columns: columns,
    )
    train, held, skipped = cut_files(Store(folder), name, reader, settings, share, [*valid, *test])
    skipped.pop(SHORT, None)
    valid = held if share else valid
    if not (len(train) or skipped) or not valid:
        raise _too_few(config)
    return Lines(name, train, valid, test, skipped)


def split_lines(config: LinesConfig, texts: Iterable[str]) -> Lines:
    """The same of texts in memory, some split off to validate on.

    Raises:
        UserError: too few of them are long enough.
    """
    lines = long_enough((text.lower() if config.lowercase else text for text in texts), config.min_words)
    problem = UserError(f"the table has too few texts of data.min_words {config.min_words} words or more; give more")
    return _split(config.name or "table", lines, config.valid_size, [], [], problem)


def _split(
    name: str, train: Sequence[str], share: float, valid: list[str], test: list[str], problem: UserError
) -> Lines:
    """Lines in memory; `problem` is raised where there are too few."""
    if share:
        end = min(cut_by_position([1] * len(train), [share])[0], len(train) - 1)
        train, valid = train[:end], list(train[end:])
    if not train or not valid:
        raise problem
    train, skipped = without_held_out(train, [valid, test], normalise)
    return Lines(name, train, valid, test, skipped)


def _too_few(config: LinesConfig) -> UserError:
    return UserError(
        f"{files_of(config, config.train)[0]} has too few lines of data.min_words {config.min_words} words or more "
        "to train and validate on; give more text"
    )


def files_of(config: LinesConfig, files: str | list[str] | None) -> list[Path]:
    """The files of a split, each of which is there."""
    return [require_file(expand_user(config.dir or ".") / file) for file in as_list(files)]


def read_files(config: LinesConfig, paths: Sequence[Path]) -> list[str]:
    """The lines of some files that are long enough."""
    lines = (line for path in paths for line in read_lines(path))
    return long_enough((line.lower() if config.lowercase else line for line in lines), config.min_words)


def long_enough(lines: Iterable[str], words: int) -> list[str]:
    """Lines of at least so many words.

    >>> long_enough([" = Title = ", "a whole sentence here"], 4)
    ['a whole sentence here']
    """
    return [line for line in lines if len(line.split()) >= words]
