"""Lines of text for masked pre-training: long enough, and cut where they are too long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harken.data.io.files import read_lines, require_file
from harken.data.splits import cut_by_position, normalise, without_held_out
from harken.data.text.locations import as_list
from harken.data.tokenizers.tokens import EOS
from harken.errors import UserError
from harken.files import expand_user
from harken.tasks.masked.recipe import MaskedDataConfig

if TYPE_CHECKING:
    from harken.data.io.token_rows import TokenRows
    from harken.data.tokenizers.base import Tokenizer


@dataclass
class Text:
    """Lines to train, to validate and to test on."""

    name: str
    train: list[str]
    valid: list[str]
    test: list[str]
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> training lines left out


def read_text(config: MaskedDataConfig) -> Text:
    """Everything that `[data]` names.

    Raises:
        UserError: a file is missing or not UTF-8, or too few lines are long enough.
    """
    if config.corpus:
        from harken.data.synthetic.phrasebook import load_phrasebook

        corpus = load_phrasebook(config.seed, train=config.size)
        made_train, made_valid, made_test = (
            [pair.source for pair in split] for split in (corpus.train, corpus.valid, corpus.tests["test"])
        )
        return Text("phrasebook", made_train, made_valid, made_test)
    train = read_files(config, files_of(config, config.train))
    if config.valid is None:
        end = min(cut_by_position([1] * len(train), [config.valid_share])[0], len(train) - 1)
        train, valid = train[:end], train[end:]
    else:
        valid = read_files(config, files_of(config, config.valid))
    if not train or not valid:
        raise UserError(
            f"{files_of(config, config.train)[0]} has too few lines of data.min_words {config.min_words} words or more "
            "to train and validate on; give more text"
        )
    test = read_files(config, files_of(config, config.test))
    train, skipped = without_held_out(train, [valid, test], normalise)
    name = config.name or files_of(config, config.train)[0].name.partition(".")[0]
    return Text(name, train, valid, test, skipped)


def files_of(config: MaskedDataConfig, files: str | list[str] | None) -> list[Path]:
    """The files of a split, each of which is there."""
    return [require_file(expand_user(config.dir or ".") / file) for file in as_list(files)]


def read_files(config: MaskedDataConfig, paths: Sequence[Path]) -> list[str]:
    """The lines of some files that are long enough."""
    lines = (line for path in paths for line in read_lines(path))
    return long_enough((line.lower() if config.lowercase else line for line in lines), config.min_words)


def long_enough(lines: Iterable[str], words: int) -> list[str]:
    """Lines of at least so many words.

    >>> long_enough([" = Title = ", "a whole sentence here"], 4)
    ['a whole sentence here']
    """
    return [line for line in lines if len(line.split()) >= words]


def as_rows(lines: Sequence[str], tokenizer: Tokenizer, limit: int) -> TokenRows:
    """Ids of the lines in pieces of at most `limit`, the end of a line counted."""
    from harken.data.io.token_rows import TokenRows  # torch, which a mere check of a recipe does without

    pieces = []
    for row in tokenizer.encode_all(list(lines)):
        whole = [*row, EOS]
        pieces += [whole[start : start + limit] for start in range(0, len(whole), limit)]
    return TokenRows.from_lists(pieces)
