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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from harken.data.prepared.ids import kept_value
from harken.data.prepared.stream import Columns, StreamedRows
from harken.data.splits import TRAIN, Parts, Size, content_key, normalise, split_groups
from harken.data.tokenizers.case_marks import CASE_MARKS


@dataclass
class Labelled:
    """Texts, or arrays of frames (T, C), each with its label."""

    values: Sequence[Any]
    labels: Sequence[str]
    groups: Sequence[str] | None = None  # what belongs together; None: every example is by itself
    parts: Sequence[bool] | None = None  # True: a piece of another example (a phrase of a sentence), for training alone
    fine: Sequence[str] | None = None  # the labels as the files have them, where `labels` are these merged into fewer
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many rows of the files are no example

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        return zip(self.values, self.labels, strict=True)

    def label_counts(self) -> Counter[tuple[str, str]]:
        """How often each label occurs, beside its fine label ("" without any), in the order of first occurrence."""
        return Counter(zip(self.labels, self.fine if self.fine is not None else repeat("")))  # noqa: B905

    def choose(self, rows: Sequence[int]) -> Labelled:
        """Some of the examples, in the order of `rows`."""
        return Labelled(
            [self.values[row] for row in rows],
            [self.labels[row] for row in rows],
            None if self.groups is None else [self.groups[row] for row in rows],
            None if self.parts is None else [self.parts[row] for row in rows],
            None if self.fine is None else [self.fine[row] for row in rows],
            self.skipped,
        )

    def wholes(self) -> Labelled:
        """Without the pieces of others: what may be validated or tested on."""
        if self.parts is None:
            return self
        return self.choose([row for row, part in enumerate(self.parts) if not part])


class StreamedLabelled(Labelled):
    """Texts that are not held in memory (`harken.data.prepared`): rows of text, label and, where it is merged, fine."""

    def __init__(self, rows: StreamedRows, has_fine: bool) -> None:
        super().__init__(rows.texts(0), rows.texts(1), fine=rows.texts(2) if has_fine else None)
        self.rows = rows

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        return iter(self.rows)

    def digest(self) -> str:
        """As `harken.data.splits.digest` of the examples."""
        return self.rows.digest()

    def label_counts(self) -> Counter[tuple[str, str]]:
        def count(columns: Columns) -> Counter[tuple[str, str]]:
            return Counter(zip(columns[1], columns[2] if self.fine is not None else repeat("")))  # noqa: B905

        def compute() -> list[tuple[str, str, int]]:
            return [(*labels, seen) for labels, seen in self.rows.counts(count).items()]

        found = kept_value(self.rows, ["labels", self.fine is not None], compute)
        return Counter({(label, fine): seen for label, fine, seen in found})


@dataclass
class LabelledSplits(Parts):
    """Everything a `[data]` table names."""

    name: str
    train: Labelled
    valid: Labelled
    tests: dict[str, Labelled]
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many training examples


def concatenate(sets: Sequence[Labelled]) -> Labelled:
    """Several sets as one."""
    if len(sets) == 1:
        return sets[0]
    groups = [[""] * len(one) if one.groups is None else one.groups for one in sets]
    parts = [[False] * len(one) if one.parts is None else one.parts for one in sets]
    return Labelled(
        [value for one in sets for value in one.values],
        [label for one in sets for label in one.labels],
        None if all(one.groups is None for one in sets) else [name for names in groups for name in names],
        None if all(one.parts is None for one in sets) else [part for flags in parts for part in flags],
    )


def split_off(examples: Labelled, sizes: Mapping[str, Size], seed: int) -> dict[str, Labelled]:
    """The parts of `sizes` and `train` (`harken.data.splits`), each in the order of `examples`.

    What is held out has no pieces of others, and these count nothing; what is left to train on has them.

    Raises:
        UserError: a part would be empty.
    """
    keys = [_group(examples, row) for row in range(len(examples))]
    weights = None if examples.parts is None else [int(not part) for part in examples.parts]
    parts = {name: examples.choose(rows) for name, rows in split_groups(keys, sizes, seed, weights).items()}
    return {name: part if name == TRAIN else part.wholes() for name, part in parts.items()}


def _group(examples: Labelled, row: int) -> str:
    if examples.groups is not None and examples.groups[row]:
        return normalise(examples.groups[row])
    return value_key(examples.values[row])


def value_key(value: Any) -> str:
    """What two equal examples have in common: a text without case, spacing and case marks, or the content of frames."""
    if not isinstance(value, str):
        return content_key(value)
    return normalise(" ".join(word for word in value.split() if word not in CASE_MARKS))
