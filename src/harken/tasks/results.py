"""Results of `Job.predict` for one example, as commands print, routes send and the studio shows them.

A job may give strings or dictionaries, too; `as_result` wraps them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from harken.tasks.job import Drawable


class Printing(NamedTuple):
    """The circumstances in which a result is printed."""

    is_terminal: bool
    is_single: bool  # whether it is the only one of a command
    number: int  # of the result, from 0


@dataclass(frozen=True)
class Show:
    """The display of a result in the studio."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # as `Result.rows`
    picture: Drawable | None = None
    title: str = ""  # where there is no picture, which has its own
    more: Mapping[str, Any] = field(default_factory=dict)  # text: a continuation; points: of a pen


class Result:
    """The base of results."""

    notes: Sequence[str] = ()  # what a command says on stderr beside the result

    def to_json(self, options: Any) -> dict[str, Any]:
        """Plain values: what a route sends."""
        raise NotImplementedError

    def to_records(self, options: Any) -> Sequence[Any]:
        """The records that a command prints with --json, each on a line; by default one, as a route sends it."""
        return [self.to_json(options)]

    def to_text(self, options: Any, printing: Printing) -> str:
        """The text that a command prints without --json; by default one line."""
        return str(self)

    def figure(self) -> Drawable | None:
        """A figure of the result, for the studio; None where the job draws what it attends to."""
        return None

    def rows(self) -> list[dict[str, Any]]:
        """Rows of (name, value from 0 to 1), with a word where they belong to one, for the studio."""
        return []


class TextResult(Result):
    """A result that is a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_json(self, options: Any) -> dict[str, Any]:
        return {"text": self.text}

    def __str__(self) -> str:
        return self.text

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": self.text}]


class ValuesResult(Result):
    """A result of values by their names."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def to_json(self, options: Any) -> dict[str, Any]:
        return self.values

    def __str__(self) -> str:
        return json.dumps(self.values, ensure_ascii=False)

    def rows(self) -> list[dict[str, Any]]:
        return [{"name": f"{name}: {value}"} for name, value in self.values.items()]


def as_result(value: Result | str | Mapping[str, Any]) -> Result:
    """A result of what a job gives.

    >>> as_result("garden").to_json(None), str(as_result({"value": 3}))
    ({'text': 'garden'}, '{"value": 3}')
    """
    if isinstance(value, Result):
        return value
    return TextResult(value) if isinstance(value, str) else ValuesResult(value)
