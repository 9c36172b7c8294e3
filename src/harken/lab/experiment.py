"""An experiment: a claim about sequence models, a function that measures it, and its findings.

Each module of `harken.lab.claims` ends with `EXPERIMENT = Experiment(...)`. The rule that turns the measurement into
`holds` is a function of numbers only, with its thresholds as named constants: written before the run, able to fail, and
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
    files: tuple[Path, ...] = ()  # the user's own data, for experiments that accept it
    sentence: str = ""  # the user's own sentence, likewise


class Progress(Protocol):
    """Called with the fraction done, 0 to 1, and a message."""

    def __call__(self, done: float, message: str, /) -> None: ...


def silent(done: float, message: str) -> None:
    """A `Progress` that reports nothing."""


def grade(whole: bool, part: bool) -> bool | None:
    """Whether a claim holds: True where the whole of it does, None where a part of it does, else False."""
    return True if whole else None if part else False


@dataclass
class Findings:
    """The results of an experiment."""

    columns: list[str]
    rows: list[list[Cell]]
    holds: bool | None  # None: partly, and the verdict says how
    verdict: str  # one line, with the numbers behind it
    figure: Figure
    measured: dict[str, Any] = field(default_factory=dict)  # everything, for the JSON
    explanation: str = ""  # a few sentences for a reader who meets the claim for the first time

    @property
    def answer(self) -> str:
        """`holds`, `does not hold` or `holds in part`."""
        return {True: "holds", False: "does not hold", None: "holds in part"}[self.holds]


@dataclass(frozen=True)
class Experiment:
    """One claim and the way to measure it."""

    name: str  # what `harken lab NAME` takes
    statement: str  # the claim
    shows: str  # one line for `harken lab list`
    run: Callable[[Settings, Progress], Findings]
    takes_files: bool = False  # whether it uses `Settings.files`
    takes_sentence: bool = False  # whether it uses `Settings.sentence`
