"""Lines of text that are read each by itself, in splits: a generated corpus, or files whose short lines are skipped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.data.io.files import MAX_LINE_BYTES, read_lines, require_file
from harken.data.prepared.store import prepared_folder
from harken.data.splits import cut_by_position, digest, normalise, without_held_out
from harken.data.text.locations import as_list
from harken.data.text.text_config import LinesConfig
from harken.errors import UserError
from harken.files import expand_user


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
        """What a model can be scored on, by the name of the split."""
        return {"valid": self.valid, **({"test": self.test} if self.test else {})}


def read_line_splits(config: LinesConfig, streamed: bool = False) -> Lines:
    """Everything that `[data]` names.

    Args:
        streamed: whether training lines of large files may stay out of memory (`harken.data.prepared`).

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
    folder = prepared_folder(config.prepared, files_of(config, config.train)) if streamed else None
    if folder is not None:
        return _streamed(config, folder)
    train: Sequence[str] = read_files(config, files_of(config, config.train))
    valid: list[str]
    if config.valid is None:
        end = min(cut_by_position([1] * len(train), [config.valid_size])[0], len(train) - 1)
        train, valid = train[:end], list(train[end:])
    else:
        valid = read_files(config, files_of(config, config.valid))
    if not train or not valid:
        raise _too_few(config)
    test = read_files(config, files_of(config, config.test))
    train, skipped = without_held_out(train, [valid, test], normalise)
    name = config.name or files_of(config, config.train)[0].name.partition(".")[0]
    return Lines(name, train, valid, test, skipped)


def _streamed(config: LinesConfig, folder: Path) -> Lines:
    """As `read_line_splits`, with training lines that are not in memory."""
    from harken.data.prepared.lines import LineReader, stream_lines
    from harken.data.prepared.stream import StreamedRows

    files = files_of(config, config.train)
    valid = read_files(config, files_of(config, config.valid))
    test = read_files(config, files_of(config, config.test))
    name = config.name or files[0].name.partition(".")[0]
    reader = LineReader(tuple((str(path),) for path in files), MAX_LINE_BYTES, 1, config.lowercase, config.min_words)
    stream = stream_lines(folder, name, reader, config.valid_size if config.valid is None else 0.0, [*valid, *test])
    valid = stream.held_out("valid") if config.valid is None else valid
    train = StreamedRows(stream, "train")
    if not (len(train) or stream.skipped) or not valid:
        raise _too_few(config)
    return Lines(name, train, valid, test, stream.skipped)


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
