"""Sentence pairs out of aligned text files and tables.

    text    line i of the source file translates to line i of the target file
    table   two columns of a table (`harken.data.io.table`); a dotted name reads nested objects: "translation.en"
    tsv     a table that a delimiter separates, whatever the name of the file says
    jsonl   a table of JSON objects, likewise

A pair is given as it stands in the file; what to skip is for `harken.data.text.parallel` to decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from harken.data.io.files import MAX_LINE_BYTES, ending, read_lines
from harken.data.io.records import Record, as_object, is_json, numbered_records
from harken.data.io.separated import plain_rows
from harken.data.io.table import GUESSED, OpenTable, Reading, is_table, open_table
from harken.data.io.translation_memories import ENDINGS as MEMORIES
from harken.data.io.translation_memories import read_units
from harken.errors import UserError

Column = int | str | None
SUGGESTION = "q", "s"  # keys of a text and its better translation, as POST /suggest of `harken serve` writes them


@dataclass(frozen=True)
class Layout:
    """The layout of the files of a corpus; what is None is decided from their content."""

    format: str = "auto"
    source_column: Column = None
    target_column: Column = None
    header: bool | None = None
    max_line_bytes: int = MAX_LINE_BYTES
    quotes: bool | None = None
    encoding: str = "utf-8"


def format_of(path: str | Path, target: str | Path | None, chosen: str = "auto") -> str:
    """`text`, `tsv`, `jsonl` or `table`: what was chosen, else what the name says; without a target, others mean TSV.

    >>> format_of("train.jsonl.gz", None), format_of("pairs.txt.xz", None), format_of("train.en.gz", "train.fr.gz")
    ('jsonl', 'tsv', 'text')
    """
    if chosen not in ("auto", "table"):
        return chosen
    if is_json(path):
        return "jsonl"
    if is_table(path):
        return "tsv" if ending(path) in (".tsv", ".tab") else "table"
    return "tsv" if target is None or chosen == "table" else "text"


def read_pairs(source: str | Path, target: str | Path | None, layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield every (source, target) of one file or of two aligned files.

    Raises:
        UserError: a file cannot be read, or a line does not hold a pair.
    """
    if target is None and ending(source) in MEMORIES:
        return unit_pairs(source, layout)
    form = format_of(source, target, layout.format)
    if form == "text":
        if target is None:
            raise UserError(f"{source} has no target file beside it: set data.target, or data.format to table.")
        return read_aligned(source, target, layout.max_line_bytes, layout.encoding)
    if target is not None and str(target) != str(source):
        raise UserError(f"{target} is given as target, but {form} has both sides in {source}: leave data.target out.")
    if form == "jsonl":
        return record_pairs(numbered_records(source, layout.max_line_bytes, layout.encoding), str(source), layout)
    return PairTable(source, layout).pairs()


def unit_pairs(path: str | Path, layout: Layout) -> Iterator[tuple[str, str]]:
    """The units of a translation memory in the languages that the columns name, else in their order; "" for none."""
    for unit in read_units(path):
        yield _of_language(unit, layout.source_column, 0), _of_language(unit, layout.target_column, 1)


def _of_language(unit: Mapping[str, str], column: Column, place: int) -> str:
    if isinstance(column, str):
        main = column.lower().partition("-")[0]
        texts = [text for language, text in unit.items() if language.lower().partition("-")[0] == main]
        return unit.get(column) or next(iter(texts), "")
    return next(islice(unit.values(), place, None), "")


def read_aligned(
    source: str | Path, target: str | Path, max_line_bytes: int, encoding: str = "utf-8"
) -> Iterator[tuple[str, str]]:
    """Line i of one file with line i of the other; unequal line counts are refused at the end."""
    sources, targets = (read_lines(path, max_line_bytes, encoding=encoding) for path in (source, target))
    count = 0
    while True:
        left, right = next(sources, None), next(targets, None)
        if left is None or right is None:
            break
        count += 1
        yield left, right
    source_count = count + (left is not None) + sum(1 for _ in sources)
    target_count = count + (right is not None) + sum(1 for _ in targets)
    if source_count != target_count:
        raise unequal_lines(source, source_count, target, target_count)


def unequal_lines(source: str | Path, source_count: int, target: str | Path, target_count: int) -> UserError:
    """The error on two files that are not aligned."""
    return UserError(
        f"{source} has {source_count:,} lines but {target} has {target_count:,}, "
        f"so line {min(source_count, target_count) + 1:,} has no partner: make line i of one the translation of line i "
        "of the other."
    )


def read_column(path: str | Path, layout: Layout) -> Iterator[str]:
    """The source side alone of a table, which may lack the target.

    Raises:
        UserError: the file cannot be read, or a line has no such column.
    """
    default = "source" if format_of(path, None, layout.format) == "jsonl" else 0
    key = default if layout.source_column is None else layout.source_column
    for source, _ in read_pairs(path, None, replace(layout, source_column=key, target_column=key)):
        yield source


class PairTable:
    """The two columns of a table that hold the pairs, found once for all of its rows."""

    def __init__(self, path: str | Path, layout: Layout) -> None:
        columns = layout.source_column, layout.target_column
        names = [column for column in columns if isinstance(column, str)]
        reading = Reading(layout.header, layout.quotes, layout.format == "tsv", layout.encoding, layout.max_line_bytes)
        self.table = open_table(path, names, reading)
        keys = ("source_column", "target_column")
        try:
            self.columns = [_name(self.table, *item) for item in zip(columns, (0, 1), keys, strict=True)]
        except UserError:
            self.table.close()
            raise

    @property
    def is_linewise(self) -> bool:
        """Whether every line is a row, but for a first one that is the header, and is read without its encoding."""
        dialect = self.table.dialect
        return dialect.quotes is False and not dialect.skipped and self.table.encoding not in GUESSED

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Every pair; a blank row is a pair of empty sides."""
        rows = self.table.select(self.columns, keep_blank=True)
        return rows if self.table.dialect.quotes is False else map(self._as_texts, rows)

    def pairs_of(self, lines: Iterable[str], first: int) -> Iterator[tuple[str, str]]:
        """The pairs of some lines, the first of which has this number, where `is_linewise`; without the header."""
        rows = plain_rows(lines, str(self.table.dialect.delimiter), first)
        return replace(self.table, rows=rows).select(self.columns, keep_blank=True)

    def _as_texts(self, cells: tuple[Any, ...]) -> tuple[str, str]:
        source, target = (_as_text(cell, self.table.path) for cell in cells)
        return source, target


def _name(table: OpenTable, column: Column, default: int, key: str) -> str:
    """The name of a column by its name or number."""
    number = default if column is None else column
    if isinstance(number, str):
        outer = number if number in table.names else number.split(".")[0]
        if outer not in table.names and not table.dialect.header:
            raise UserError(
                f'data.{key} is the name "{number}", but the first line of {table.path} does not have it: give a number'
                " from 0, or name the columns in the first line."
            )
        if outer not in table.names:
            shown = ", ".join(table.names[:20])
            raise UserError(f'{table.path}, line 1 has no column "{number}": set data.{key} to one of {shown}.')
        return number
    if number >= len(table.names):
        count = len(table.names)
        raise UserError(
            f"{table.path} has {count} column{'s' * (count != 1)}, but column {number} (counted from 0) is wanted: set "
            "data.source_column and data.target_column, or name a second file as data.target."
        )
    return table.names[number]


def _as_text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise UserError(f"{where} has no text in a column of its pairs but {json.dumps(value, default=str)[:40]}.")
    text = value if isinstance(value, str) else str(value)
    return text.replace("\n", " ") if "\n" in text else text


def record_pairs(records: Iterator[tuple[int, Record | None]], path: str, layout: Layout) -> Iterator[tuple[str, str]]:
    """Two keys of every JSON object; None, a blank line, is a pair of empty sides.

    Where no keys are named, they are those of a suggestion if the first object has them, else source and target.
    """
    if layout.source_column is layout.target_column is None:
        first = next(records, None)
        keys = SUGGESTION if first and first[1] and first[1].keys() >= {*SUGGESTION} else (None, None)
        layout = replace(layout, source_column=keys[0], target_column=keys[1])
        records = records if first is None else chain([first], records)
    source_key = str("source" if layout.source_column is None else layout.source_column)
    target_key = str("target" if layout.target_column is None else layout.target_column)
    for number, record in records:
        if record is None:
            yield "", ""
            continue
        where = f"{path}, line {number}"
        yield _text(record, source_key, where, "source_column"), _text(record, target_key, where, "target_column")


def parse_records(lines: Iterable[str], first: int, path: str) -> Iterator[tuple[int, Record | None]]:
    """The objects on some lines of a file of JSON Lines, the first of which has this number."""
    for number, line in enumerate(lines, start=first):
        yield number, as_object(line, f"{path}, line {number}", "source") if line.strip() else None


def _text(record: Record, key: str, where: str, setting: str) -> str:
    value: Any = record
    for part in [key] if key in record else key.split("."):
        if not isinstance(value, dict) or part not in value:
            keys = ", ".join(map(str, list(record)[:8]))
            raise UserError(f'{where} has no key "{key}": set data.{setting} to one of its keys ({keys}).')
        value = value[part]
    if not isinstance(value, str):
        raise UserError(f'{where} has no text under "{key}" but {json.dumps(value)[:40]}: write a string there.')
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(f'{where} has half a surrogate pair under "{key}": fix its \\u escapes.') from error
    return value.replace("\r\n", " ").replace("\n", " ")
