r"""Running text in three splits, in order: files, a folder, or the English side of the phrasebook.

A share that is split off is the end of the text, cut where a line ends: the last lines are the test, those before them
the validation text, and the rest is for training; neighbouring lines of one text stay in one split. Lines of running
text that occur in several splits (a speaker's name, an empty line) stay: they are part of the text, not examples.

>>> train, valid, test = cut_off(["one", "two", "six", "ten"], (0.25, 0.25))
>>> train, valid, test
(['one', 'two'], ['six'], ['ten'])
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harken.data.io.files import COMPRESSIONS, read_lines, require_file
from harken.data.parts import cut_text, running_text
from harken.data.prepared.store import Store, prepared_folder
from harken.data.splits import cut_by_position, digest
from harken.data.text.text_config import TextConfig
from harken.errors import UserError
from harken.files import expand_user
from harken.paths import Files

SPLITS = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}
LONGEST_LINE = 2**30  # bytes: a corpus may be one line
LISTED = 5  # files named in an error


@dataclass(frozen=True)
class TextCorpus:
    """The lines of each split, without their ends."""

    name: str
    train: Sequence[str]
    valid: Sequence[str]
    test: Sequence[str]

    def digests(self) -> dict[str, str]:
        """A digest of every split (`harken.data.splits`)."""
        return {"train": digest(self.train), "valid": digest(self.valid), "test": digest(self.test)}


def read_texts(config: TextConfig) -> TextCorpus:
    """The corpus that a `[data]` table names.

    Raises:
        UserError: a file is missing or not UTF-8, or there is no text to train on.
    """
    if config.corpus == "phrasebook":
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


def files_of(config: TextConfig) -> dict[str, list[Path]]:
    """The files of every split; none where a share is split off.

    Raises:
        UserError: a file or folder is missing.
    """
    given = {name: _listed(getattr(config, name)) for name in SPLITS}
    if config.dir is not None and not given["train"]:
        given = {name: given[name] or in_folder for name, in_folder in _in_folder(expand_user(config.dir)).items()}
    return {name: [require_file(path) for path in paths] for name, paths in given.items()}


def cut_off(lines: Sequence[str], shares: tuple[float, float]) -> tuple[list[str], list[str], list[str]]:
    """(train, valid, test): the last two have these shares of the characters, up to the end of a line."""
    first, second, _ = cut_by_position([len(line) + 1 for line in lines], shares)
    return list(lines[:first]), list(lines[first:second]), list(lines[second:])


def _phrasebook(config: TextConfig) -> TextCorpus:
    from harken.data.synthetic.phrasebook import load_phrasebook

    corpus = load_phrasebook(config.seed, train=config.size)
    splits = (corpus.train, corpus.valid, corpus.tests["test"])
    return TextCorpus("phrasebook", *([pair.source for pair in split] for split in splits))


def _lines(paths: Sequence[Path]) -> list[str]:
    return [line for path in paths for line in read_lines(path, LONGEST_LINE)]


def _listed(files: Files | None) -> list[Path]:
    return [] if files is None else [Path(file) for file in ([files] if isinstance(files, str) else files)]


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
