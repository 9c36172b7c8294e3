"""Sentence pairs, their gold word alignments, and the corpus that holds them.

>>> alignment = Alignment.from_pharaoh("0-0 1-2 2?1")
>>> sorted(alignment.sure), sorted(alignment.possible)
([(0, 0), (1, 2)], [(0, 0), (1, 2), (2, 1)])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harken.data.splits import Parts, normalise
from harken.errors import UserError

Link = tuple[int, int]  # (source word, target word), counted from 0 over whitespace-separated words


@dataclass(frozen=True, slots=True)
class Alignment:
    """Gold links. A sure link must be found, a possible one may be (Och and Ney, 2003)."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # holds every sure link too

    def __post_init__(self) -> None:
        if not self.sure <= self.possible:
            object.__setattr__(self, "possible", self.possible | self.sure)

    @classmethod
    def from_pharaoh(cls, line: str) -> Alignment:
        """Read `i-j` (sure) and `i?j` (possible) pairs."""
        sure, possible = set(), set()
        for item in line.split():
            separator = "-" if "-" in item else "?"
            source, target = item.split(separator)
            link = (int(source), int(target))
            possible.add(link)
            if separator == "-":
                sure.add(link)
        return cls(frozenset(sure), frozenset(possible))

    def to_pharaoh(self) -> str:
        """Write what `from_pharaoh` reads, in order of the source."""
        links = [f"{i}-{j}" if (i, j) in self.sure else f"{i}?{j}" for i, j in sorted(self.possible)]
        return " ".join(links)


@dataclass(frozen=True, slots=True)
class Pair:
    """One sentence and its translation."""

    source: str
    target: str
    alignment: Alignment | None = None
    heads: tuple[int, ...] | None = (
        None  # of the source's words, from 1; 0 is a root (`harken.data.text.dependency_heads`)
    )


@dataclass
class Corpus(Parts):
    """All the text of one training run, and what was left out of it."""

    name: str
    source_language: str
    target_language: str
    train: Sequence[Pair]
    valid: Sequence[Pair]
    tests: dict[str, Sequence[Pair]] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)  # reason -> lines left out


def pair_key(source: str, target: str) -> str:
    """The group of a pair (`harken.data.splits`); `data.skip_empty = false` keeps pairs without a source."""
    return normalise(source) or normalise(target)


def nothing_left(name: str, files: Sequence[str], reasons: Mapping[str, int]) -> UserError:
    """The error on a split without a pair."""
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in reasons.items()) or "the files are empty"
    return UserError(
        f"No sentence pair is left in the {name} split of {', '.join(files)} ({left_out}): "
        "check the files and the limits in [data]."
    )
