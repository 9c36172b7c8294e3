"""What an experiment is: a claim of the lectures, a function that measures it, and what was found.

Each module of `harken.lab.claims` ends with `EXPERIMENT = Experiment(...)`. The rule that turns the measurement into
`holds` is a function of numbers alone, with its thresholds as named constants above it: written before the run, and
tested with made-up numbers on both sides.

>>> Findings(["s"], [[0.5]], True, "it vanishes", Figure("", [])).answer
'holds'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harken.inspection.figure import Figure

Cell = str | float | int  # of a table


@dataclass(frozen=True)
class Settings:
    """How to run: the same experiment for the same seed; `quick` is the same code on sizes that take seconds."""

    seed: int = 1
    quick: bool = False
    files: tuple[Path, ...] = ()  # the user's own data, for experiments that can be asked about it


class Progress(Protocol):
    """Told how far an experiment is, 0 to 1, and what it has just done."""

    def __call__(self, done: float, say: str) -> None: ...


def silent(done: float, say: str) -> None:
    """A `Progress` that tells nobody."""


@dataclass
class Findings:
    """What an experiment found."""

    columns: list[str]
    rows: list[list[Cell]]
    holds: bool | None  # None: partly, and the verdict says how
    verdict: str  # one line, with the numbers behind it
    figure: Figure
    measured: dict[str, Any] = field(default_factory=dict)  # everything, for the JSON

    @property
    def answer(self) -> str:
        """`holds`, `does not hold` or `holds in part`."""
        return {True: "holds", False: "does not hold", None: "holds in part"}[self.holds]


@dataclass(frozen=True)
class Experiment:
    """One claim and the way to measure it."""

    name: str  # what `harken lab NAME` takes
    statement: str  # the claim in our own words
    shows: str  # one line for `harken lab list`
    run: Callable[[Settings, Progress], Findings]
    takes_files: bool = False  # whether `Settings.files` is of use
