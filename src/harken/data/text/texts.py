r"""Text in one language, in three splits: running text in order, or lines that are read each by itself.

A share that is split off is the end of the text, cut where a line ends: the last lines are the test, those before them
the validation text, and the rest is for training; neighbouring lines of one text stay in one split. Lines of running
text that occur in several splits (a speaker's name, an empty line) stay: they are part of the text, not examples. Of
lines by themselves (`read_line_splits`), short ones are skipped and training lines that are also held out are left
out.

>>> train, valid, test = cut_off(["one", "two", "six", "ten"], (0.25, 0.25))
>>> train, valid, test
(['one', 'two'], ['six'], ['ten'])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harken.data.io.files import COMPRESSIONS, MAX_LINE_BYTES, read_lines, require_file
from harken.data.parts import cut_files, cut_text, line_reader, running_text
from harken.data.prepared.store import Store, prepared_folder
from harken.data.splits import cut_by_position, digest, normalise, without_held_out
from harken.data.text.locations import as_list
from harken.data.text.scripts import estimate_words
from harken.data.text.text_config import LinesConfig, TextConfig
from harken.errors import UserError
from harken.files import expand_user

SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
LONGEST_LINE = 2**30  # bytes: a corpus may be one line
LISTED = 5  # files named in an error
SHORT = "too few words"  # why a line is no example; such lines are not counted


@dataclass(frozen=True)
class TextCorpus:
    """The lines of each split, without their ends."""

    name: str
    train: Sequence[str]
    valid: Sequence[str]
    test: Sequence[str]
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training lines left out

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`)."""
        return {"train": digest(self.train), "valid": digest(self.valid), "test": digest(self.test)}

    @property
    def held_out(self) -> dict[str, list[str]]:
        """The texts that a model can be scored on, by the name of the split."""
        return {"valid": list(self.valid), **({"test": list(self.test)} if self.test else {})}


def read_texts(config: TextConfig) -> TextCorpus:
    """The running text that a `[data]` table names.

    Raises:
        UserError: a file is missing or not UTF-8, or there is no text to train on.
    """
    if config.corpus:
        return _phrasebook(config)
    files = files_of(config)
    held = {name: _lines(files[name]) for name in ("valid", "test")}
    name = config.name or files["train"][0].name.split(".")[0]
    shares = 0.0 if held["valid"] else config.valid_size, 0.0 if held["test"] else config.test_size
    folder = prepared_folder(config.prepared, files["train"])
    parts: Sequence[Sequence[str]]
    if folder is None:
        parts = cut_off(_lines(files["train"]), shares)
        if not _is_text(parts[0]):
            raise UserError(f"{files['train'][0]} holds no text to train on; give a file with some words")
    else:
        parts = cut_text(Store(folder), name, running_text(files["train"], LONGEST_LINE), shares)
    train, valid, test = parts[0], held["valid"] or parts[1], held["test"] or parts[2]
    if (held["valid"] or folder is None) and not _is_text(valid):
        raise UserError("there is no text to validate on; give data.valid, or a larger data.valid_size")
    return TextCorpus(name, train, valid, test)


def _is_text(lines: Sequence[str]) -> bool:
    return any(line.strip() for line in lines)


def cut_off(lines: Sequence[str], shares: tuple[float, float]) -> tuple[list[str], list[str], list[str]]:
    """(train, valid, test): the last two have these shares of the characters, up to the end of a line."""
    first, second, _ = cut_by_position([len(line) + 1 for line in lines], shares)
    return list(lines[:first]), list(lines[first:second]), list(lines[second:])


def read_line_splits(config: LinesConfig) -> TextCorpus:
    """The lines that a `[data]` table names; training lines of large files stay on disk.

    Raises:
        UserError: a file is missing or not UTF-8, or too few lines are long enough.
    """
    if config.corpus:
        return _phrasebook(config)
    files = files_of(config)
    folder = prepared_folder(config.prepared, files["train"])
    name = config.name or files["train"][0].name.partition(".")[0]
    valid, test = (read_files(config, files[split]) for split in ("valid", "test"))
    share = config.valid_size if config.valid is None else 0.0
    problem = UserError(
        f"{files['train'][0]} has too few lines of data.min_words {config.min_words} words or more to train and "
        "validate on; give more text"
    )
    if folder is None:
        return _split(name, read_files(config, files["train"]), share, valid, test, problem)
    reader = line_reader(
        files["train"],
        MAX_LINE_BYTES,
        normalise,
        lambda line: "" if len(line.split()) >= config.min_words else SHORT,
        (lambda columns: ([line.lower() for line in columns[0]],)) if config.lowercase else lambda columns: columns,
    )
    settings = config.lowercase, config.min_words
    train, held, skipped = cut_files(Store(folder), name, reader, settings, share, [*valid, *test])
    skipped.pop(SHORT, None)
    valid = held if share else valid
    if not (len(train) or skipped) or not valid:
        raise problem
    return TextCorpus(name, train, valid, test, skipped)


def split_lines(config: LinesConfig, texts: Iterable[str]) -> TextCorpus:
    """The splits of texts in memory, the last of them to validate on.

    Raises:
        UserError: too few of them are long enough.
    """
    problem = UserError(f"the table has too few texts of data.min_words {config.min_words} words or more; give more")
    return _split(config.name or "table", long_enough(config, texts), config.valid_size, [], [], problem)


def _split(
    name: str, train: Sequence[str], share: float, valid: list[str], test: list[str], problem: UserError
) -> TextCorpus:
    """Lines in memory; `problem` is raised where there are too few."""
    if share:
        end = min(cut_by_position([1] * len(train), [share])[0], len(train) - 1)
        train, valid = train[:end], list(train[end:])
    if not train or not valid:
        raise problem
    train, skipped = without_held_out(train, [valid, test], normalise)
    return TextCorpus(name, train, valid, test, skipped)


def read_files(config: LinesConfig, paths: Sequence[Path]) -> list[str]:
    """The lines of some files that are long enough."""
    return long_enough(config, (line for path in paths for line in read_lines(path)))


def long_enough(config: LinesConfig, lines: Iterable[str]) -> list[str]:
    """Lines of at least `data.min_words` words, as they are read.

    >>> long_enough(LinesConfig(min_words=4), [" = Title = ", "a whole sentence here"])
    ['a whole sentence here']
    >>> long_enough(LinesConfig(min_words=4), ["題名", "黒い猫は屋根の上で眠る。"])
    ['黒い猫は屋根の上で眠る。']
    """
    cased = (line.lower() if config.lowercase else line for line in lines)
    return [line for line in cased if estimate_words(line) >= config.min_words]


def _phrasebook(config: TextConfig | LinesConfig) -> TextCorpus:
    from harken.data.synthetic.phrasebook import load_phrasebook

    corpus = load_phrasebook(config.seed, train=config.size)
    splits = (corpus.train, corpus.valid, corpus.tests["test"])
    train, valid, test = ([pair.source for pair in split] for split in splits)
    return TextCorpus("phrasebook", train, valid, test)


def _lines(paths: Sequence[Path]) -> list[str]:
    return [line for path in paths for line in read_lines(path, LONGEST_LINE)]


def files_of(config: TextConfig | LinesConfig) -> dict[str, list[Path]]:
    """The files of every split; none where a share is split off.

    Raises:
        UserError: a file or folder is missing.
    """
    base = expand_user(config.dir or ".") if isinstance(config, LinesConfig) else Path()
    given = {name: [base / file for file in as_list(getattr(config, name))] for name in SPLITS}
    if isinstance(config, TextConfig) and config.dir is not None and not given["train"]:
        given = {name: given[name] or in_folder for name, in_folder in _in_folder(expand_user(config.dir)).items()}
    return {name: [require_file(path) for path in paths] for name, paths in given.items()}


def _in_folder(folder: Path) -> dict[str, list[Path]]:
    """Files by the word in their name that says the split; a single file is the training text."""
    if not folder.is_dir():
        problem = "is a file where a folder is wanted" if folder.exists() else "does not exist"
        raise UserError(f"data.dir {folder} {problem}: name the folder with the training text, or give data.train")
    paths = sorted(path for path in folder.iterdir() if _is_text_file(path))
    words = {path: set(re.split(r"[^a-z]+", path.name.lower())) for path in paths}
    splits = {name: [path for path in paths if words[path] & set(marks)] for name, marks in SPLITS.items()}
    if not splits["train"] and len(paths) == 1:
        splits["train"] = paths
    if not splits["train"]:
        names = ", ".join(path.name for path in paths[:LISTED]) or "no text files"
        raise UserError(f"data.dir {folder} has no file with train in its name ({names}); name one with data.train")
    return splits


def _is_text_file(path: Path) -> bool:
    plain = Path(path.stem) if path.suffix in COMPRESSIONS else path
    readme = plain.name.lower().startswith(("readme", "licen"))
    return path.is_file() and not path.name.startswith(".") and not readme
