"""An experiment: a claim about sequence models, a function that measures it, and its findings.

Each module of `harken.lab.claims` ends with `EXPERIMENT = Experiment(...)`. The rule that turns the measurement into
`holds` is a function of numbers only, with its thresholds as named constants: written before the run, and tested with
made-up numbers on both sides. What a claim rests on is declared part by part: a theorem or arithmetic cannot be refuted
by a measurement, which then checks the code; an empirical part can.

>>> Findings(["s"], [[0.5]], True, "it vanishes", Figure("", [])).answer
'holds'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from harken.errors import UserError
from harken.inspection.figure import Figure

Cell = str | float | int  # of a table
Sizes = Mapping[str, tuple[int, int]]  # name -> its default, and its value with `quick`


@dataclass(frozen=True)
class Settings:
    """How to run: the same experiment for the same seed; `quick` is the same code on sizes that take seconds.

    >>> Settings(sizes={"hidden": 8}).resolve({"hidden": (128, 16), "seeds": (5, 1)})
    [8, 5]
    """

    seed: int = 1
    quick: bool = False
    files: tuple[Path, ...] = ()  # the user's own data, for experiments that accept it
    sentence: str = ""  # the user's own sentence, likewise
    sizes: Mapping[str, int] = field(default_factory=dict)  # in place of the defaults of the experiment

    def resolve(self, sizes: Sizes) -> list[int]:
        """The values of these sizes, in their order."""
        return [self.sizes.get(name, quick if self.quick else default) for name, (default, quick) in sizes.items()]


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
class Part:
    """A part of a claim, by what could refute it.

    A theorem and arithmetic hold by algebra, so that a measurement that contradicts them is wrong; an empirical part
    may fail.
    """

    kind: Literal["theorem", "arithmetic", "empirical"]
    statement: str


@dataclass(frozen=True)
class Experiment:
    """One claim and the way to measure it."""

    name: str  # what `harken lab NAME` takes
    statement: str  # the claim
    shows: str  # one line for `harken lab list`
    run: Callable[[Settings, Progress], Findings]
    parts: tuple[Part, ...] = ()  # what the claim rests on
    sizes: Sizes = field(default_factory=dict)  # what `harken lab NAME --set` changes
    changes: tuple[str, ...] = ()  # of the rule after a first run, each with its date
    takes_files: bool = False  # whether it uses `Settings.files`
    takes_sentence: bool = False  # whether it uses `Settings.sentence`

    @property
    def kinds(self) -> str:
        """The kinds of its parts, for a list: "theorem, empirical"."""
        return ", ".join(dict.fromkeys(part.kind for part in self.parts))

    def check(self, settings: Settings) -> None:
        """Refuse sizes that the experiment does not have, and sizes below 1.

        Raises:
            UserError: with the sizes that there are.
        """
        for name, value in settings.sizes.items():
            if name not in self.sizes:
                known = ", ".join(f"{size} ({default:,})" for size, (default, _) in self.sizes.items()) or "none"
                raise UserError(f"The experiment {self.name} has no size {name!r}; sizes and their defaults: {known}")
            if value < 1:
                raise UserError(f"{name} = {value}, but a size is at least 1")
