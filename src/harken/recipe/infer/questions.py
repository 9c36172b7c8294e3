"""A question that data leaves open (which job, which column): asked in a terminal, answered by options elsewhere.

>>> choices = [{"task": "classify", "target": "topic"}, {"task": "classify", "target": "my mood"}]
>>> undecided = Undecided("news.csv has several columns of labels", "Which is predicted?", choices)
>>> print(undecided.within(["harken", "train", "news.csv"], {"text": "body"}, ["--out", "runs/news"]))
news.csv has several columns of labels; choose one, for example: harken train news.csv --task classify --text-column \
body --target-column topic --out runs/news
>>> undecided.labels
['classify: topic', 'classify: my mood']
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harken.errors import UserError

FLAGS = {"task": "--task", "text": "--text-column", "target": "--target-column", "pair": "--pair"}
MOST_CHOICES = 8
Options = Mapping[str, str]


class Undecided(UserError):
    """More than one job or column is possible, so that options have to choose.

    Args:
        problem: what is ambiguous, with the path.
        question: what to ask in a terminal.
        choices: the options that each choice stands for, the likeliest first.
        command: one that takes the first choice.
    """

    def __init__(self, problem: str, question: str, choices: Sequence[Options], command: str = "") -> None:
        self.problem, self.question, self.choices = problem, question, list(choices[:MOST_CHOICES])
        self.command = command or train_command("DATA", choices[0])
        self.sample: Any = None  # the table that was looked at
        super().__init__(f"{problem}; choose one, for example: {self.command}")

    @property
    def labels(self) -> list[str]:
        """The choices, to be shown in a list."""
        return [_label(choice) for choice in self.choices]

    def within(self, start: Sequence[str], options: Options, end: Sequence[str]) -> Undecided:
        """The same error with another command: its beginning, options that were given, and its end."""
        command = shlex.join([*start, *flags({**options, **self.choices[0]}), *end])
        other = Undecided(self.problem, self.question, self.choices, command)
        other.sample = self.sample
        return other


def _label(choice: Options) -> str:
    columns = " -> ".join(choice[key] for key in ("text", "target", "pair") if key in choice)
    return ": ".join(part for part in (choice.get("task", ""), columns) if part)


def flags(options: Options) -> list[str]:
    """Options as arguments of a command."""
    return [part for key, flag in FLAGS.items() if key in options for part in (flag, options[key])]


def train_command(path: str | Path, options: Options | None = None) -> str:
    """A command that trains on data, to be copied into a shell."""
    return shlex.join(["harken", "train", str(path), *flags(options or {}), "--out", f"runs/{run_name(path)}"])


def run_name(path: str | Path) -> str:
    """A name for a run on a file or folder: its own without the endings.

    >>> run_name("data/pairs.en-fr.tsv.gz"), run_name("."), run_name("~$ book.xlsx")
    ('pairs', 'mine', 'mine')
    """
    stem = Path(path).name.partition(".")[0]
    return stem if stem.replace("-", "").replace("_", "").isalnum() else "mine"
