"""Labelled examples of any kind, and parts held out of them by group.

Examples that belong together (windows of one person, phrases of one sentence, the same text twice) must not stand
on both sides of a split, or the test would ask for what was learnt by heart. So whole groups are drawn, in an order
fixed by the seed.

>>> examples = Labelled(["go", "run", "stop", "Go"], ["1", "2", "1", "1"], groups=["a", "b", "c", "a"])
>>> held_out, rest = split_off(examples, 2, seed=5)
>>> held_out.values, rest.values
(['go', 'Go'], ['run', 'stop'])
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harken.data.tokenizers.case_marks import CASE_MARKS
from harken.errors import UserError


@dataclass
class Labelled:
    """Texts, or arrays of frames (T, C), each with its label."""

    values: list[Any]
    labels: list[str]
    groups: list[str] | None = None  # what belongs together; None: every example is by itself
    parts: list[bool] | None = None  # True: a piece of another example (a phrase of a sentence), for training alone
    fine: list[str] | None = None  # the labels as the files have them, where `labels` are these merged into fewer

    def __len__(self) -> int:
        return len(self.values)

    def choose(self, rows: Sequence[int]) -> Labelled:
        """Some of the examples, in the order of `rows`."""
        return Labelled(
            [self.values[row] for row in rows],
            [self.labels[row] for row in rows],
            None if self.groups is None else [self.groups[row] for row in rows],
            None if self.parts is None else [self.parts[row] for row in rows],
            None if self.fine is None else [self.fine[row] for row in rows],
        )

    def wholes(self) -> Labelled:
        """Without the pieces of others: what may be validated or tested on."""
        if self.parts is None:
            return self
        return self.choose([row for row, part in enumerate(self.parts) if not part])


@dataclass
class LabelledSplits:
    """Everything a `[data]` table names."""

    name: str
    train: Labelled
    valid: Labelled
    tests: dict[str, Labelled]
    skipped: dict[str, int] = field(default_factory=dict)  # why -> how many training examples


def joined(sets: Sequence[Labelled]) -> Labelled:
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


def split_off(examples: Labelled, count: int, seed: int) -> tuple[Labelled, Labelled]:
    """(held out, rest), both in the order of `examples`: groups are drawn until `count` examples are reached.

    What is held out has no pieces of others, and these count nothing; the rest has them.

    Raises:
        UserError: nothing would be left to train on.
    """
    groups: dict[str, list[int]] = {}
    for row, value in enumerate(examples.values):
        groups.setdefault(_group(examples, row, value), []).append(row)
    order = sorted(groups)
    random.Random(seed).shuffle(order)
    chosen: set[int] = set()
    held = 0
    for name in order:
        rows = groups[name]
        size = sum(not (examples.parts and examples.parts[row]) for row in rows)
        if held and held + size > count * 1.1:  # one that is too large is passed over
            continue
        chosen.update(rows)
        held += size
        if held >= count:
            break
    rest = [row for row in range(len(examples)) if row not in chosen]
    if not rest:
        raise UserError(
            f"holding out {count} of {len(examples)} examples in {len(groups)} groups leaves none to train on; "
            "set a smaller data.valid_size and data.test_size, or name files"
        )
    return examples.choose(sorted(chosen)).wholes(), examples.choose(rest)


def _group(examples: Labelled, row: int, value: Any) -> str:
    if examples.groups is not None and examples.groups[row]:
        return examples.groups[row]
    return plain(value) if isinstance(value, str) else f"#{row:09d}"


def plain(text: str) -> str:
    """A text without case and spacing, to find the same one again."""
    return " ".join(word for word in text.split() if word not in CASE_MARKS).casefold()
