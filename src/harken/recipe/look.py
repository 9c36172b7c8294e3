"""A look at data before training: its columns, languages, lengths, labels and duplicates, and the job that follows.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "films.tsv"
>>> _ = path.write_text("".join(f"the film was {word} {n}\\t{word}\\n" for n in range(20) for word in ("good", "bad")))
>>> report = look(path)
>>> report.task, report.columns[1].kind, report.columns[1].values
('classify', 'label', {'good': 20, 'bad': 20})
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harken.data.io.columns import CELLS, Column, Table
from harken.data.text.languages import detect, language_name
from harken.data.text.scripts import estimate_words, script_of
from harken.recipe.infer import Undecided, infer
from harken.recipe.infer.columns import format_labels, length_facts
from harken.recipe.infer.questions import train_command

EXAMPLES, EXAMPLE_LENGTH, MOST_COLUMNS = 3, 60, 50


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about a column of the sample."""

    name: str
    kind: str  # text, label, number, date, id, audio, image or empty
    empty: int  # cells
    distinct: int
    examples: list[str]
    script: str = ""
    language: str | None = None  # its code
    words: dict[str, float] = field(default_factory=dict)  # of a text: median, 95%, most
    values: dict[str, int] = field(default_factory=dict)  # of labels, the most frequent first

    @property
    def majority(self) -> float | None:
        """The share of the most frequent label: the accuracy of always choosing it."""
        return max(self.values.values()) / sum(self.values.values()) if self.values else None


@dataclass(frozen=True)
class Look:
    """A report on data: what was looked at, and the job and the command that follow."""

    path: str
    rows: int
    is_sample: bool  # whether there may be more rows than were looked at
    columns: list[ColumnFacts]  # the first ones of a wide table
    duplicates: int  # rows that are equal to an earlier one
    task: str | None  # None: it is not decided, or nothing can be trained
    reason: str
    command: str  # "" where the reason says what to do
    choices: list[str] = field(default_factory=list)
    num_columns: int = 0
    more: dict[str, str] = field(default_factory=dict)  # what is no table: sentences, signals
    unit: str = "rows"  # or words, where sentences span several lines

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return asdict(self)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The report without its columns and the command: names and values."""
        rows = f"the first {self.rows:,} of the file" if self.is_sample else f"{self.rows:,}"
        if self.num_columns > len(self.columns):
            rows += f"; {self.num_columns:,} columns, of which the first {len(self.columns)} are shown"
        if self.duplicates and self.unit == "rows":
            rows += f"; {self.duplicates:,} repeat an earlier one"
        labels = [
            (f"labels in {column.name}", format_labels(column.values)) for column in self.columns if column.values
        ]
        decided = (self.task, self.reason) if self.task else ("not decided", self.reason)
        return [
            *([(self.unit, rows)] if self.columns else []),
            *self.more.items(),
            *labels,
            ("job", ": ".join(decided)),
            *([("choices", "; ".join(self.choices))] if self.choices else []),
        ]

    @property
    def column_rows(self) -> list[tuple[str, ...]]:
        """A row for each column, as `HEADINGS` says."""
        return [
            (
                column.name,
                column.kind,
                f"{column.empty:,}",
                f"{column.distinct:,}",
                _language(column),
                _lengths(column.words),
                " | ".join(column.examples),
            )
            for column in self.columns
        ]

    def _repr_html_(self) -> str:
        def rows(cells: Sequence[Sequence[str]]) -> Iterator[str]:
            for row in cells:
                yield "<tr>" + "".join(f'<td dir="auto">{html.escape(cell)}</td>' for cell in row) + "</tr>"

        heading = "".join(f"<th>{name}</th>" for name in HEADINGS)
        columns = f"<table><tr>{heading}</tr>{''.join(rows(self.column_rows))}</table>" if self.columns else ""
        return f"{columns}<table>{''.join(rows(self.facts))}</table><pre>{html.escape(self.command)}</pre>"


HEADINGS = ("column", "kind", "empty", "distinct", "language", "words: median, 95%, most", "examples")


def look(path: str | Path) -> Look:
    """Look at a file or folder of data, at most at the rows that `infer` reads.

    Raises:
        UserError: the data does not exist or cannot be read; it says what to do.
    """
    task, choices, command, more, unit = None, list[str](), "", dict[str, str](), "rows"
    try:
        inferred = infer(path)
        sample, task, reason, command = inferred.sample, inferred.task, inferred.reason, train_command(path)
        more, unit = inferred.facts(), inferred.unit
    except Undecided as undecided:
        sample, reason, command, choices = undecided.sample, undecided.problem, undecided.command, undecided.labels
    if sample is None:
        return Look(str(path), 0, False, [], 0, task, reason, command, choices, more=more)
    repeated = len(sample.rows) - len({tuple(row) for row in sample.rows})
    columns = [describe(column) for column in _columns(sample)]
    facts = (str(path), len(sample.rows), sample.is_cut, columns, repeated)
    return Look(*facts, task, reason, command, choices, len(sample.names), more, unit)


def _columns(sample: Table) -> Iterator[Column]:
    """The columns with all their cells, also those that hold nothing to train on."""
    for index, name in enumerate(sample.names[:MOST_COLUMNS]):
        yield Column(name, [row[index] for row in sample.rows])


def describe(column: Column) -> ColumnFacts:
    """The facts about a column."""
    some = Column(column.name, column.cells[:: max(1, len(column.cells) // CELLS)])
    kind = some.kind
    is_text = kind == "text"
    counts = Counter(column.filled) if kind == "label" else Counter[str]()
    return ColumnFacts(
        column.name,
        kind,
        len(column.cells) - len(column.filled),
        column.distinct,
        [_shortened(cell) for cell in list(dict.fromkeys(column.filled[:100]))[:EXAMPLES]],
        script_of(some.filled) if is_text else "",
        detect(some.filled) if is_text else None,
        length_facts([*map(estimate_words, some.filled)]) if is_text else {},
        dict(counts.most_common()),
    )


def _shortened(cell: str) -> str:
    text = " ".join(cell.split())
    return text if len(text) <= EXAMPLE_LENGTH else f"{text[: EXAMPLE_LENGTH - 1]}…"


def _language(column: ColumnFacts) -> str:
    return language_name(column.language) if column.language else column.script


def _lengths(words: dict[str, float]) -> str:
    return ", ".join(f"{count:.0f}" for count in words.values())
