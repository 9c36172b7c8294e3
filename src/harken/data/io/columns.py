"""The contents of a table's columns, inferred from their cells: text, labels, numbers, dates or names of files.

>>> rows = [[f"I read part {number}", str(number % 2)] for number in range(20)]
>>> table = Table("reviews.tsv", ["0", "1"], rows, has_header=False)
>>> [column.kind for column in table.columns]
['text', 'label']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from harken.data.series.dates import read_date
from harken.data.text.scripts import estimate_words

CELLS = 5000  # cells of a column, evenly spaced, that are looked at
MOST_LABELS, PER_LABEL = 100, 5  # a column has labels where each occurs this often on average
MOST_NUMBERS = 30  # different whole numbers that may be labels
LABELS, FEW_LABELS = ("label", "class", "category"), 20  # columns of these names need not repeat their values
CONSTANT = 20  # equal cells that are no chance
LABEL_WORDS, TEXT_WORDS = 4.0, 3.0
AUDIO, IMAGES = (".wav", ".flac", ".ogg"), (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


def is_number(cell: str) -> bool:
    """Whether a cell of a file holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # 1_000 is a number to Python alone


# How other programs write numbers, and how each becomes one that `float` reads.
DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})+|\d+),\d+(\s?%)?")  # 1.234,5
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d+)?(\s?%)?")  # 1,234.5
PERCENT = re.compile(r"[-+]?\d+(\.\d+)?\s?%")  # 12.5%


def convert_number(cell: str, pattern: re.Pattern[str]) -> str:
    """A number that one of the patterns matches as `float` reads it; other cells as they are.

    >>> convert_number("1.234,5", DECIMAL_COMMA), convert_number("1,234 %", THOUSANDS), convert_number("7", PERCENT)
    ('1234.5', '1234', '7')
    """
    text = cell.strip()
    if not pattern.fullmatch(text):
        return cell
    if pattern is DECIMAL_COMMA:
        text = text.replace(".", "").replace(",", ".")
    return text.replace(",", "").removesuffix("%").strip()


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
        """The number of different cells."""
        return len(set(self.filled))

    @cached_property
    def words(self) -> float:
        """Words of a cell, on average; estimated where the script has no spaces."""
        return sum(map(estimate_words, self.filled)) / max(1, len(self.filled))

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
        return bool(self.filled) and self.share(is_number) > 0.98

    @cached_property
    def is_label(self) -> bool:
        """Whether few short values return: words, or whole numbers."""
        returning = self.distinct <= MOST_LABELS and PER_LABEL * self.distinct <= len(self.filled)
        few = self.distinct > 1 and (returning or (self.name.lower() in LABELS and self.distinct <= FEW_LABELS))
        whole = not self.is_number or self.share(lambda cell: is_number(cell) and float(cell).is_integer()) > 0.98
        is_scale = self.is_number and self.distinct > MOST_NUMBERS  # such as ratings from 0 to 50
        return few and whole and not is_scale and self.words <= LABEL_WORDS

    @cached_property
    def is_constant(self) -> bool:
        """Whether all of many cells are equal, so that nothing can be learnt of them."""
        return self.distinct == 1 and len(self.filled) >= CONSTANT

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
            numbers = [float(cell) for cell in self.filled[:200] if is_number(cell)]
            steps = {later - earlier for earlier, later in pairwise(numbers)}
            return "id" if len(steps) == 1 and steps.pop() > 0 and len(numbers) > 2 else "number"
        return "text"

    def number_pattern(self, decimal_comma: bool = False) -> re.Pattern[str] | None:
        """The pattern of numbers that `float` does not read, where all cells are numbers and some are of it.

        Args:
            decimal_comma: whether 1,234 is a little more than one, as in files that semicolons separate.

        >>> Column("price", ["1,5", "2"]).number_pattern() is DECIMAL_COMMA, Column("price", ["1.5"]).number_pattern()
        (True, None)
        """
        if self.is_number:
            return None
        patterns = (DECIMAL_COMMA, THOUSANDS, PERCENT) if decimal_comma else (THOUSANDS, DECIMAL_COMMA, PERCENT)
        for pattern in patterns:
            if self.filled and all(pattern.fullmatch(cell) or is_number(cell) for cell in self.filled):
                return None if self.is_label else pattern
        return None


@dataclass(frozen=True)
class Table:
    """The rows of a file that were looked at, their cells as text."""

    path: str
    names: list[str]
    rows: list[list[str]]
    has_header: bool = True
    quotes: bool = True
    lists: frozenset[str] = frozenset()  # columns that hold lists
    encoding: str = "utf-8"
    is_cut: bool = False  # whether the file may have more rows

    def beginning(self, name: str, count: int = 500) -> list[str]:
        """The first cells of a column, in order."""
        index = self.names.index(name)
        return [row[index] for row in self.rows[:count]]

    @cached_property
    def columns(self) -> list[Column]:
        """Every column; a column of single words beside texts is an identifier, and left out."""
        every = max(1, len(self.rows) // CELLS)
        rows = self.rows[::every]
        columns = [Column(name, [row[index] for row in rows]) for index, name in enumerate(self.names)]
        columns = [column for column in columns if column.kind not in ("empty", "id") and not column.is_constant]
        if any(column.kind == "text" and column.words >= TEXT_WORDS for column in columns):
            columns = [column for column in columns if column.kind != "text" or not _is_identifier(column)]
        return columns


def _is_identifier(column: Column) -> bool:
    return column.words == 1 and column.distinct == len(column.filled)
