"""Infer the contents of a table's columns from their cells: text, labels, numbers, dates or names of files.

>>> rows = [[f"I read part {number}", str(number % 2)] for number in range(20)]
>>> table = Table("reviews.tsv", ["0", "1"], rows, has_header=False)
>>> [column.kind for column in table.columns]
['text', 'label']
"""

from __future__ import annotations

import json
import lzma
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from statistics import mode
from typing import Any

from harken.data.io.files import open_bytes
from harken.data.io.table import as_object, separated_rows
from harken.data.series.dates import read_date
from harken.errors import UserError

MOST_BYTES = 50_000_000  # of a file that are looked at
MOST_ROWS, CELLS = 100_000, 5000  # rows that are read, and those of them, evenly spaced, that are looked at
MOST_LABELS, PER_LABEL = 100, 5  # a column has labels where each occurs this often on average
LABELS, FEW_LABELS = ("label", "class", "category"), 20  # columns of these names need not repeat their values
LABEL_WORDS, TEXT_WORDS = 4.0, 3.0
AUDIO, IMAGES = (".wav", ".flac", ".ogg"), (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
NAMES = re.compile(r"""[^\W\d][\w .:/()%"'-]{0,39}""")  # of columns
KNOWN_NAMES = {"text", "sentence", "label", "class", "category", "source", "target", "date", "title", "audio", "image"}


@dataclass(frozen=True)
class Column:
    """A column and some of its cells."""

    name: str
    cells: Sequence[str]

    @cached_property
    def filled(self) -> list[str]:
        """Cells that hold something."""
        return [cell.strip() for cell in self.cells if cell.strip()]

    @cached_property
    def distinct(self) -> int:
        """How many different cells there are."""
        return len(set(self.filled))

    @cached_property
    def words(self) -> float:
        """Words of a cell, on average."""
        return sum(len(cell.split()) for cell in self.filled) / max(1, len(self.filled))

    @cached_property
    def characters(self) -> float:
        """Characters of a cell, on average."""
        return sum(map(len, self.filled)) / max(1, len(self.filled))

    def share(self, holds: Any) -> float:
        """The share of the cells that `holds` is true of."""
        return sum(bool(holds(cell)) for cell in self.filled) / max(1, len(self.filled))

    @cached_property
    def is_number(self) -> bool:
        """Whether nearly all cells are numbers."""
        return bool(self.filled) and self.share(_number) > 0.98

    @cached_property
    def is_label(self) -> bool:
        """Whether few short values return: words, or whole numbers."""
        returning = self.distinct <= MOST_LABELS and PER_LABEL * self.distinct <= len(self.filled)
        few = self.distinct > 1 and (returning or (self.name.lower() in LABELS and self.distinct <= FEW_LABELS))
        whole = not self.is_number or self.share(lambda cell: _number(cell) and float(cell).is_integer()) > 0.98
        return few and whole and self.words <= LABEL_WORDS

    @cached_property
    def kind(self) -> str:
        """empty, audio, image, date, label, number, id or text."""
        if not self.filled:
            return "empty"
        for kind, endings in (("audio", AUDIO), ("image", IMAGES)):
            if self.share(lambda cell, endings=endings: cell.lower().endswith(endings)) > 0.9:
                return kind
        if not self.is_number and self.share(read_date) > 0.95:
            return "date"
        if self.is_label:
            return "label"
        if self.is_number:
            numbers = [float(cell) for cell in self.filled[:200] if _number(cell)]
            steps = {later - earlier for earlier, later in pairwise(numbers)}
            return "id" if len(steps) == 1 and steps.pop() > 0 and len(numbers) > 2 else "number"
        return "text"


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Table:
    """The rows of a file that were looked at."""

    path: str
    names: list[str]
    rows: list[list[str]]
    has_header: bool = True
    quotes: bool = True
    lists: frozenset[str] = frozenset()  # JSONL: columns that hold lists

    def beginning(self, name: str, count: int = 500) -> list[str]:
        """The first cells of a column, in order."""
        place = self.names.index(name)
        return [row[place] for row in self.rows[:count]]

    @cached_property
    def columns(self) -> list[Column]:
        """Every column; a column of single words beside texts is an identifier, and left out."""
        every = max(1, len(self.rows) // CELLS)
        rows = self.rows[::every]
        columns = [Column(name, [row[place] for row in rows]) for place, name in enumerate(self.names)]
        columns = [column for column in columns if column.kind not in ("empty", "id")]
        if any(column.kind == "text" and column.words >= TEXT_WORDS for column in columns):
            columns = [column for column in columns if column.kind != "text" or not _is_identifier(column)]
        return columns


def _is_identifier(column: Column) -> bool:
    return column.words == 1 and column.distinct == len(column.filled)


def read_text(path: Path) -> tuple[str, str]:
    """The beginning of a file, cut at a line, and its encoding: utf-8 or latin-1.

    Raises:
        UserError: it cannot be read, is empty, or holds no text.
    """
    with open_bytes(path) as stream:
        try:
            content = stream.read(MOST_BYTES)
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as problem:
            raise UserError(f"{path} cannot be read ({problem}); copy or download the file again") from None
    if len(content) == MOST_BYTES:
        content = content[: content.rfind(b"\n") + 1]
    if not content.strip():
        raise UserError(f"{path} is empty; give a file with at least a few examples")
    if b"\0" in content[:100_000]:
        raise UserError(f"{path} is no text file; give CSV, TSV, JSONL, CoNLL-U or plain text, or write a recipe")
    try:
        return content.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def read_separated(path: Path, text: str, separator: str) -> Table:
    """A CSV or TSV file.

    Raises:
        UserError: it has one column only, or its quotes are broken.
    """
    lines = text.split("\n")
    quotes = separator == "," or not any(_half_quoted(line, separator) for line in lines[:MOST_ROWS])
    every = separated_rows((line.removesuffix("\r") for line in lines), path, separator, quotes)
    rows = [row for _, row in islice(every, MOST_ROWS) if any(cell.strip() for cell in row)]
    if len(rows[0]) == 1 and ";" in rows[0][0] and all(";" in row[0] for row in rows[:20]):
        raise UserError(f"{path} separates its cells with semicolons; save it with commas, or with tabs as .tsv")
    if len(rows) < 2:
        raise UserError(f"{path} has a single row; give a table with at least a few examples")
    width = mode(len(row) for row in rows)
    body = [[*row, *[""] * (width - len(row))][:width] for row in rows]
    if _is_header(body):
        return Table(str(path), [name.strip() for name in body[0]], body[1:], True, quotes)
    return Table(str(path), [str(place) for place in range(width)], body, False, quotes)


def _half_quoted(line: str, separator: str) -> bool:
    """Whether a cell opens a quote that it does not close: then quotes are part of the text."""
    return '"' in line and any(
        cell.startswith('"') and not (len(cell) > 1 and cell.endswith('"')) for cell in line.split(separator)
    )


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns: known names, or names where the rows below hold something else."""
    first, below = [cell.strip() for cell in rows[0]], rows[1 : CELLS + 1]
    if not below or len(set(first)) < len(first) or not all(NAMES.fullmatch(cell) for cell in first):
        return False
    if any(cell.lower() in KNOWN_NAMES for cell in first):
        return True
    columns = [Column(name, [row[place] for row in below]) for place, name in enumerate(first)]
    if any(column.kind in ("number", "date", "id", "audio", "image") or column.is_number for column in columns):
        return True
    if any(name in column.filled for name, column in zip(first, columns, strict=True)):
        return False
    return sum(column.characters for column in columns) > 3 * sum(map(len, first))


def read_records(path: Path, text: str) -> Table:
    """A JSONL file.

    Raises:
        UserError: a line that is no JSON object.
    """
    lines = [line for line in text.split("\n")[:MOST_ROWS] if line.strip()]
    records = [as_object(line, f"{path}, line {number}", "text") for number, line in enumerate(lines, start=1)]
    names = list(dict.fromkeys(name for record in records[:100] for name in record))
    lists = frozenset(name for name in names if isinstance(records[0].get(name), list))
    rows = [[_cell(record.get(name)) for name in names] for record in records]
    return Table(str(path), names, rows, True, True, lists)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)
