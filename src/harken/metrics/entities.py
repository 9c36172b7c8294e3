"""Entities in BIO tags, and how many of them were found: precision, recall, F1.

    B-person I-person O I-group      two entities: an I that follows no entity of its kind begins one
    precision = right / found        recall = right / there        F1 = 2 right / (found + there)

An entity is right where kind, beginning and end are. This is how `conlleval` and `seqeval` count (Tjong Kim Sang and De
Meulder, 2003).

>>> spans(["B-person", "I-person", "O", "I-group"])
[('person', 0, 2), ('group', 3, 4)]
>>> sentence_counts(["B-person", "I-person"], ["B-person", "O"]).f1
0.0
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

Span = tuple[str, int, int]  # kind, first word, the word after the last
BIO = re.compile(r"[BI]-.+")


class Counts(NamedTuple):
    """What precision and recall are made of."""

    right: int = 0
    found: int = 0
    there: int = 0

    def __add__(self, other: tuple[int, ...]) -> Counts:  # type: ignore[override]
        return Counts(*(one + more for one, more in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """The share of what is there that was found."""
        return self.right / self.there if self.there else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of both."""
        return 2 * self.right / (self.found + self.there) if self.found + self.there else 0.0


def is_bio(tags: Iterable[str]) -> bool:
    """Whether these are the tags of entities: O, B-x and I-x alone, and at least one B-x."""
    known = set(tags)
    inside = known - {"O"}
    return any(tag.startswith("B-") for tag in inside) and all(BIO.fullmatch(tag) for tag in inside)


def spans(tags: Sequence[str]) -> list[Span]:
    """The entities of one sentence, in order."""
    found: list[Span] = []
    kind, first = "", 0
    for place, tag in enumerate([*tags, "O"]):
        mark, _, name = tag.partition("-")
        if kind and (mark != "I" or name != kind):
            found.append((kind, first, place))
            kind = ""
        if mark != "O" and not kind:
            kind, first = name, place
    return found


def sentence_counts(gold: Sequence[str], found: Sequence[str]) -> Counts:
    """The counts of one sentence, all kinds together."""
    there, made = set(spans(gold)), set(spans(found))
    return Counts(len(there & made), len(made), len(there))


def counts_by_kind(gold: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, Counts]:
    """The counts of many sentences for each kind of entity, by name."""
    counts: dict[str, Counts] = defaultdict(Counts)
    for right_tags, made_tags in zip(gold, found, strict=True):
        there, made = set(spans(right_tags)), set(spans(made_tags))
        for kind in {span[0] for span in there | made}:
            mine, theirs = ({span for span in group if span[0] == kind} for group in (there, made))
            counts[kind] += Counts(len(mine & theirs), len(theirs), len(mine))
    return dict(sorted(counts.items()))
