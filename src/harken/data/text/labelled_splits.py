"""Training, validation and test examples as a `[data]` table names them.

What is not named is split off from training, whole groups at a time (`harken.data.splits`). A training example that
is also in the validation or the test is left out and counted.

>>> splits = read_splits(ExamplesConfig(corpus="opinions", size=100))
>>> len(splits.train), sorted(set(splits.train.labels))
(100, ['negative', 'positive'])
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harken.data.io.folders import matching
from harken.data.io.in_memory import refuse_gaps
from harken.data.io.table import read_table
from harken.data.series.signals import read_signals
from harken.data.series.step_tables import read_steps
from harken.data.splits import DUPLICATES, Size, size_of
from harken.data.text.examples import Labelled, LabelledSplits, concatenate, split_off, value_key
from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import cleaned, read_texts, text_columns, texts_of_table
from harken.errors import UserError

DEFAULT_SIZE = (0.1, 1000)  # 10%, at most 1000


def read_splits(data: ExamplesConfig) -> LabelledSplits:
    """Everything, ready to train.

    Raises:
        UserError: files that cannot be read, or too few examples.
    """
    if data.corpus:
        return _made(data)
    tests = {"test": read_examples(data.split("test")).wholes()} if data.test else {}
    return _split(data, read_examples(data), tests)


def split_table(data: ExamplesConfig, table: Mapping[str, list[Any]]) -> LabelledSplits:
    """The same out of one table in memory: texts with labels, or signals with a row a time step.

    Raises:
        UserError: a column that is not there, a cell without anything, or too few examples.
    """
    if data.kind == "text":
        chosen = read_table(table, [*text_columns(data), data.label])
        refuse_gaps(chosen, chosen)
        found = _named(texts_of_table(chosen, data), data)
        found.values = [cleaned(text, data) for text in found.values]
    else:
        found = _named(read_steps(Path("the table"), data, table), data)
    return _split(data, found, {})


def _split(data: ExamplesConfig, train: Labelled, tests: dict[str, Labelled]) -> LabelledSplits:
    skipped: dict[str, int] = {}
    sizes: dict[str, Size] = {}
    if not tests and data.test_size:
        sizes["test"] = data.test_size
    if not data.valid:
        sizes["valid"] = size_of(data.valid_size, DEFAULT_SIZE)
    parts = split_off(train, sizes, data.seed)
    valid = read_examples(data.split("valid")).wholes() if data.valid else parts["valid"]
    tests = {"test": parts["test"]} if "test" in parts else tests
    train = _once(parts["train"], [valid, *tests.values()], skipped)
    if len(set(train.labels)) < 2:
        raise UserError(
            f"the training examples have {len(set(train.labels))} class ({', '.join(set(train.labels))}); give at "
            "least two, and check data.label"
        )
    return LabelledSplits(data.name or _name(data), train, valid, tests, skipped)


def read_examples(data: ExamplesConfig) -> Labelled:
    """All examples of the files that `data.train` names, labels called as `data.names` has it.

    Raises:
        UserError: no file is named, or one cannot be read.
    """
    paths = matching(data.dir, data.train)
    if not paths:
        raise UserError("the recipe names no data; set data.train to files, or data.corpus to opinions or gestures")
    read = read_texts if data.kind == "text" else read_signals
    found = _named(concatenate([read(path, data) for path in paths]), data)
    if not len(found):
        raise UserError(f"{paths[0]} holds no example; check the file, and data.names if it is given")
    if data.kind == "text":
        found.values = [cleaned(text, data) for text in found.values]
    return found


def _named(examples: Labelled, data: ExamplesConfig) -> Labelled:
    if data.label_until or data.names is not None:
        examples.fine = list(examples.labels)
    if data.label_until:
        examples.labels = [label.partition(data.label_until)[0] for label in examples.labels]
    if data.names is None:
        return examples
    names = data.names
    kept = examples.choose([row for row, label in enumerate(examples.labels) if label in names])
    if not len(kept) and len(examples):
        raise UserError(
            f"data.names has {', '.join(names)}, but the labels are {', '.join(sorted(set(examples.labels))[:5])} ...; "
            "write the labels as the file has them on the left"
        )
    kept.labels = [names[label] for label in kept.labels]
    return kept


def _once(train: Labelled, held_out: list[Labelled], skipped: dict[str, int]) -> Labelled:
    """Without examples of the held-out sets, and a phrase of a tree only once for each label."""
    known = {value_key(value) for part in held_out for value in part.values}
    seen: set[tuple[str, str]] = set()
    rows = []
    for row, (value, label) in enumerate(train):
        part = train.parts is not None and train.parts[row]
        if value_key(value) in known:
            reason = DUPLICATES
        elif part and (value, label) in seen:
            reason = "phrases seen before"
        else:
            rows.append(row)
            if isinstance(value, str):
                seen.add((value, label))
            continue
        skipped[reason] = skipped.get(reason, 0) + 1
    return train.choose(rows) if len(rows) < len(train) else train


def _name(data: ExamplesConfig) -> str:
    first = data.train if isinstance(data.train, str) else (data.train or [""])[0]
    return Path(data.dir).name if data.dir else Path(first).name.partition(".")[0]


def _made(data: ExamplesConfig) -> LabelledSplits:
    if data.corpus == "opinions":
        from harken.data.synthetic.opinions import make_splits
    else:
        from harken.data.synthetic.gestures import make_splits
    return make_splits(data.size, data.seed)
