"""The sentences or signals that a recipe's `[data]` names, split into training, validation and tests."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harken.data.io.files import require_file
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.series.framed import Framed, read_frames
from harken.data.text.locations import as_list
from harken.data.text.tagged import Tagged, as_tagged, read_tagged
from harken.errors import UserError
from harken.tasks.tag.recipe import TagDataConfig

Example = Tagged | Framed
SPLIT_OFF, SHARE = 1000, 0.05  # to validate on, where nothing is said: the smaller


@dataclass
class TagCorpus:
    """What there is to learn from and to be scored on."""

    name: str
    train: Sequence[Example]
    valid: Sequence[Example]
    tests: dict[str, Sequence[Example]]


def read_corpus(config: TagDataConfig) -> TagCorpus:
    """Everything that `[data]` names.

    Raises:
        UserError: files that are missing or broken, or nothing is left to train on.
    """
    if config.corpus:
        from harken.data.synthetic.phrasebook.tagged import load_tagged_phrasebook

        made = load_tagged_phrasebook(config.seed, config.size)
        return TagCorpus("phrasebook", made.pop("train"), made.pop("valid"), dict(made))
    train = read_files(config, files_of(config, config.train))
    if config.valid is None:
        train, valid = split_off(train, config)
    else:
        valid = read_files(config, files_of(config, config.valid))
    tests: dict[str, Sequence[Example]] = {}
    if config.test is not None:
        tests["test"] = read_files(config, files_of(config, config.test))
    first = files_of(config, config.train)[0]
    return TagCorpus(config.name or first.name.partition(".")[0], train, valid, tests)


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
    return [Path(config.dir or ".").expanduser() / file for file in as_list(files)]


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


def is_frames(config: TagDataConfig, path: Path) -> bool:
    """Whether the file holds signals and no words."""
    return config.format == "frames" or (config.format == "auto" and path.suffix == ".npz")


def split_off(examples: list[Example], config: TagDataConfig) -> tuple[list[Example], list[Example]]:
    """Some examples, chosen by the seed, to validate on.

    Raises:
        UserError: nothing would be left to train on.
    """
    wanted = config.valid_size
    if wanted is None:
        wanted = min(SPLIT_OFF, max(1, int(SHARE * len(examples))))
    count = int(wanted * len(examples)) if isinstance(wanted, float) else wanted
    if not 0 < count < len(examples):
        raise UserError(
            f"{count:,} of {len(examples):,} examples would be split off to validate on; set data.valid, or another "
            "data.valid_size"
        )
    chosen = set(random.Random(config.seed).sample(range(len(examples)), count))
    rest = [example for number, example in enumerate(examples) if number not in chosen]
    return rest, [examples[number] for number in sorted(chosen)]
