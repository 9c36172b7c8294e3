"""Sentence pairs out of aligned text files, TSV and JSONL.

    text    line i of the source file translates to line i of the target file
    tsv     one pair a line, columns separated by tabs, no quoting
    jsonl   one JSON object a line; a dotted key reads nested objects: "translation.en"

A pair is given as it stands in the file; what to skip is for `harken.data.text.parallel` to decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harken.data.io.files import MAX_LINE_BYTES, ending, read_lines
from harken.data.io.table import as_object, is_jsonl
from harken.errors import UserError


@dataclass(frozen=True)
class Layout:
    """How to read the files of a corpus."""

    format: str = "auto"
    source_column: int | str | None = None
    target_column: int | str | None = None
    header: bool = False
    max_line_bytes: int = MAX_LINE_BYTES


def format_of(path: str | Path, target: str | Path | None, chosen: str = "auto") -> str:
    """`text`, `tsv` or `jsonl`: what was chosen, else what the name says; without a target, other names mean TSV.

    >>> format_of("train.jsonl.gz", None), format_of("pairs.txt.xz", None), format_of("train.en.gz", "train.fr.gz")
    ('jsonl', 'tsv', 'text')
    """
    if chosen != "auto":
        return chosen
    if is_jsonl(Path(path)):
        return "jsonl"
    return "tsv" if ending(path) in (".tsv", ".tab") or target is None else "text"


def read_pairs(source: str | Path, target: str | Path | None, layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield every (source, target) of one file or of two aligned files.

    Raises:
        UserError: a file cannot be read, or a line does not hold a pair.
    """
    form = format_of(source, target, layout.format)
    if form == "text":
        if target is None:
            raise UserError(f"{source} has no target file beside it: set data.target, or data.format to tsv or jsonl.")
        return read_aligned(source, target, layout.max_line_bytes)
    if target is not None and str(target) != str(source):
        raise UserError(f"{target} is given as target, but {form} has both sides in {source}: leave data.target out.")
    return read_tsv(source, layout) if form == "tsv" else read_jsonl(source, layout)


def read_aligned(source: str | Path, target: str | Path, max_line_bytes: int) -> Iterator[tuple[str, str]]:
    """Line i of one file with line i of the other; unequal line counts are refused at the end."""
    sources, targets = read_lines(source, max_line_bytes), read_lines(target, max_line_bytes)
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
    """The source side alone of a TSV or JSONL file, which may lack the target.

    Raises:
        UserError: the file cannot be read, or a line has no such column.
    """
    read, default = (read_jsonl, "source") if layout.format == "jsonl" else (read_tsv, 0)
    key = default if layout.source_column is None else layout.source_column
    for source, _ in read(path, replace(layout, source_column=key, target_column=key)):
        yield source


NumberedLines = Iterator[tuple[int, str]]


def read_tsv(path: str | Path, layout: Layout, lines: NumberedLines | None = None) -> Iterator[tuple[str, str]]:
    """Two columns of a tab-separated file; a blank line is a pair of empty sides.

    Args:
        lines: some of the file's lines with their numbers, the header first where there is one; None: all of them.
    """
    lines = enumerate(read_lines(path, layout.max_line_bytes), start=1) if lines is None else lines
    names: list[str] | None = None
    if layout.header:
        names = next(lines, (1, ""))[1].split("\t")
    first = _column(layout.source_column, 0, names, path, "source_column")
    second = _column(layout.target_column, 1, names, path, "target_column")
    for number, line in lines:
        cells = line.split("\t")
        if max(first, second) >= len(cells):
            if not line.strip():
                yield "", ""
                continue
            raise UserError(
                f"{path}, line {number} has {len(cells)} tab-separated column{'s' * (len(cells) != 1)}, but column "
                f"{max(first, second)} (counted from 0) is wanted: fix the line, set data.source_column and "
                "data.target_column, or name a second file as data.target."
            )
        yield cells[first], cells[second]


def _column(chosen: int | str | None, default: int, names: list[str] | None, path: str | Path, key: str) -> int:
    if chosen is None:
        return default
    if isinstance(chosen, int):
        return chosen
    if names is None:
        raise UserError(f'data.{key} is the name "{chosen}", but {path} has no header: set data.header = true.')
    if chosen not in names:
        raise UserError(f'{path}, line 1 has no column "{chosen}": set data.{key} to one of {", ".join(names)}.')
    return names.index(chosen)


def read_jsonl(path: str | Path, layout: Layout, lines: NumberedLines | None = None) -> Iterator[tuple[str, str]]:
    """Two keys of every JSON object; a blank line is a pair of empty sides.

    Args:
        lines: some of the file's lines with their numbers; None: all of them.
    """
    lines = enumerate(read_lines(path, layout.max_line_bytes), start=1) if lines is None else lines
    source_key = str("source" if layout.source_column is None else layout.source_column)
    target_key = str("target" if layout.target_column is None else layout.target_column)
    for number, line in lines:
        if not line.strip():
            yield "", ""
            continue
        where = f"{path}, line {number}"
        record = as_object(line, where, source_key)
        yield _text(record, source_key, where, "source_column"), _text(record, target_key, where, "target_column")


def _text(record: dict[str, Any], key: str, where: str, setting: str) -> str:
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
