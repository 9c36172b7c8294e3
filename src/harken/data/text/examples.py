"""Labelled examples of any kind, and parts held out of them by group.

Examples that belong together (windows of one person, phrases of one sentence, the same text twice) must not stand
on both sides of a split, or the test would measure what was memorised. So whole groups are held out.

>>> examples = Labelled(["go", "run", "stop", "Go"], ["1", "2", "1", "1"], groups=["a", "b", "c", "a"])
>>> parts = split_off(examples, {"valid": 2}, seed=5)
>>> parts["valid"].values, parts["train"].values
(['go', 'Go'], ['run', 'stop'])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from harken.data.rows import Columns, Rows, rows_of
from harken.data.splits import TRAIN, Parts, Size, content_key, digest, normalise, split_groups, stratified_groups
from harken.data.tokenizers.case_marks import CASE_MARKS


class Example(NamedTuple):
    """One labelled text or array of frames (T, C)."""

    value: Any
    label: str
    group: str = ""  # what it belongs to; empty: it is by itself
    part: bool = False  # a piece of another example (a phrase of a sentence), for training alone
    fine: str = ""  # the label as the file has it, where labels are merged into fewer


@dataclass
class Labelled:
    """Texts, or arrays of frames (T, C), each with its label."""

    values: Sequence[Any]
    labels: Sequence[str]
    groups: Sequence[str] | None = None  # as `Example` has them; None: none has any
    parts: Sequence[bool] | None = None
    fine: Sequence[str] | None = None
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many rows of the files are no example
    stored: Rows[Any] | None = None  # rows of text, label and, where it is merged, fine label, where these are on disk

    @classmethod
    def of(
        cls, examples: Iterable[Example], has_fine: bool = False, skipped: Mapping[str, int] | None = None
    ) -> Labelled:
        """Examples as columns; `has_fine` where their labels are merged ones."""
        columns = [list(column) for column in zip(*examples, strict=True)] or [[] for _ in Example._fields]
        values, labels, groups, parts, fine = columns
        return cls(
            values,
            labels,
            groups if any(groups) else None,
            parts if any(parts) else None,
            fine if has_fine else None,
            dict(skipped or {}),
        )

    def examples(self) -> Iterator[Example]:
        """The examples one by one."""
        columns = (self.values, self.labels, self.groups, self.parts, self.fine)
        others = ("", "", "", False, "")
        return map(Example, *(repeat(other) if c is None else c for c, other in zip(columns, others, strict=True)))

    @classmethod
    def on_disk(cls, rows: Rows[Any], has_fine: bool) -> Labelled:
        """Texts that are not held in memory: rows of text, label and perhaps fine label."""
        return cls(rows.column(0), rows.column(1), fine=rows.column(2) if has_fine else None, stored=rows)

    @property
    def rows(self) -> Rows[Any]:
        """Values, labels and, where there are some, fine labels as rows."""
        if self.stored is not None:
            return self.stored
        columns = (self.values, self.labels) if self.fine is None else (self.values, self.labels, self.fine)
        return rows_of(list(zip(*columns, strict=True)))

    def digest(self) -> str:
        """`harken.data.splits.digest` of the examples."""
        return digest(zip(self.values, self.labels, strict=True)) if self.stored is None else self.stored.digest()

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        return zip(self.values, self.labels, strict=True) if self.stored is None else iter(self.stored)

    def label_counts(self) -> Counter[tuple[str, str]]:
        """The counts of labels, each beside its fine label ("" without any), in the order of first occurrence."""
        rows, has_fine = self.rows, self.fine is not None

        def count(columns: Columns) -> Counter[tuple[str, str]]:
            return Counter(zip(columns[1], columns[2] if has_fine else repeat("")))  # noqa: B905

        def compute() -> list[tuple[str, str, int]]:
            return [(*labels, times) for labels, times in rows.counts(count).items()]

        counts = rows.cached(["labels", has_fine], compute)
        return Counter({(label, fine): times for label, fine, times in counts})

    def choose(self, rows: Iterable[int]) -> Labelled:
        """Some of the examples, in the order of `rows`."""
        examples = list(self.examples())
        return Labelled.of((examples[row] for row in rows), self.fine is not None, self.skipped)

    def wholes(self) -> Labelled:
        """The examples that are no pieces of others: those that may be validated or tested on."""
        return self if self.parts is None else self.choose(np.flatnonzero(~np.array(self.parts, bool)))


@dataclass
class LabelledSplits(Parts):
    """Everything a `[data]` table names."""

    name: str
    train: Labelled
    valid: Labelled
    tests: dict[str, Labelled]
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many training examples


def split_off(examples: Labelled, sizes: Mapping[str, Size], seed: int, stratify: bool = False) -> dict[str, Labelled]:
    """The parts of `sizes` and `train` (`harken.data.splits`), each in the order of `examples`.

    What is held out has no pieces of others, and these count nothing; what is left to train on has them.

    Args:
        stratify: hold the same share of every label out.

    Raises:
        UserError: a part would be empty.
    """
    keys = [_group(examples, row) for row in range(len(examples))]
    weights = None if examples.parts is None else [int(not part) for part in examples.parts]
    if stratify and sizes:
        chosen = stratified_groups(keys, examples.labels, sizes, seed)
    else:
        chosen = split_groups(keys, sizes, seed, weights)
    parts = {name: examples.choose(rows) for name, rows in chosen.items()}
    return {name: part if name == TRAIN else part.wholes() for name, part in parts.items()}


def _group(examples: Labelled, row: int) -> str:
    if examples.groups is not None and examples.groups[row]:
        return normalise(examples.groups[row])
    return value_key(examples.values[row])


def value_key(value: Any) -> str:
    """The key that equal examples share: a text without case, spacing and case marks, or the content of frames."""
    if not isinstance(value, str):
        return content_key(value)
    return normalise(" ".join(word for word in value.split() if word not in CASE_MARKS))
