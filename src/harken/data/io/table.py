"""Named columns out of whatever a table comes as: CSV, TSV and JSONL files, data frames, records.

    .csv .tsv .jsonl     plain, .gz or .xz; CSV and TSV with quoting, their first line names the columns
    pandas, polars       a frame, by its columns
    datasets.Dataset     likewise
    dict, list of dicts  {"text": [...], "label": [...]} or [{"text": ..., "label": ...}, ...]

A file without a header has columns "0", "1" ... (say `header=False`). A wrong name is answered with the nearest one.

>>> read_table([{"text": "good", "label": 1}, {"text": "bad", "label": 0}], ["label"])
{'label': [1, 0]}
>>> read_table({"text": ["good"]}, ["txet"])
Traceback (most recent call last):
    ...
harken.errors.UserError: the table has no column 'txet'; did you mean 'text'?
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

from harken.data.io.files import ending, read_lines
from harken.errors import UserError

CELL_BYTES = 10_000_000  # the longest cell that is read as text


def read_table(
    source: Any, columns: Sequence[str] | None = None, *, header: bool = True, quotes: bool = True, remedy: str = ""
) -> dict[str, list[Any]]:
    """The chosen columns (all where None), each as a list; cells of CSV and TSV files are strings.

    Args:
        quotes: whether a quote at the beginning of a cell of a file encloses it; else it is a letter like any other.
        remedy: what to do about a column that is not there, beside what the error says itself.

    Raises:
        UserError: a file that cannot be read, a line with too few cells, or no such column.
    """
    if isinstance(source, str | Path):
        chosen, rows = table_rows(Path(source), columns, header=header, quotes=quotes, remedy=remedy)
        cells: list[list[Any]] = [[] for _ in chosen]
        for row in rows:
            for column, cell in zip(cells, row, strict=True):
                column.append(cell)
        return dict(zip(chosen, cells, strict=True))
    table = _columns_of(source)
    return {name: table[name] for name in _chosen_columns(columns, list(table), "the table")}


def nested_columns(table: Mapping[str, list[Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Columns of a table in memory by their names; a dotted name reads objects inside a column.

    Raises:
        UserError: no such column, or an object without the key.

    >>> nested_columns({"translation": [{"en": "cat", "fr": "chat"}]}, ["translation.fr"])
    {'translation.fr': ['chat']}
    """
    columns = {}
    for name in names:
        outer, *inner = [name] if name in table else name.split(".")
        cells = read_table(table, [name if not inner else outer])[outer]
        for key in inner:
            for row, cell in enumerate(cells, start=1):
                if not isinstance(cell, Mapping) or key not in cell:
                    raise UserError(f"the table, row {row} has no {key!r} in column {outer!r}; check the column's name")
            cells = [cell[key] for cell in cells]
        columns[name] = cells
    return columns


def column_names(source: Any, *, header: bool = True) -> list[str]:
    """The names of the columns, without reading all of a file."""
    if isinstance(source, str | Path):
        path = Path(source)
        if is_jsonl(path):
            return list(next(_records(path), {}))
        _, names = _first(path, header)
        return names
    return list(_columns_of(source))


def is_jsonl(path: Path) -> bool:
    """Whether the name says that there is a JSON object on every line."""
    return ending(path) in (".jsonl", ".ndjson", ".json")


def table_rows(
    path: Path, columns: Sequence[str] | None = None, *, header: bool = True, quotes: bool = True, remedy: str = ""
) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the chosen columns and the rows of a file, which are read one by one; see `read_table`."""
    if is_jsonl(path):
        return _jsonl_rows(path, columns, remedy)
    lines, names = _first(path, header, quotes)
    chosen = _chosen_columns(columns, names, str(path), remedy)
    positions = [names.index(name) for name in chosen]

    def rows() -> Iterator[list[Any]]:
        for number, row in lines:
            if not row or (len(row) == 1 and not row[0].strip()):
                continue
            if len(row) <= max(positions, default=-1):
                raise UserError(
                    f"{path}, line {number} has {len(row)} cell{'s' * (len(row) != 1)}, but the header has "
                    f"{len(names)}; fix the line, or quote cells that contain the separator"
                )
            yield [row[position] for position in positions]

    return chosen, rows()


def _first(path: Path, header: bool, quotes: bool = True) -> tuple[Iterator[tuple[int, list[str]]], list[str]]:
    """The rows with their line numbers, and the names of the columns."""
    rows = _rows(path, quotes)
    first = next((row for row in rows if any(cell.strip() for cell in row[1])), None)  # blank lines are no header
    if first is None:
        raise UserError(f"{path} is empty; give a table with at least one row")
    if header:
        return rows, [name.strip() for name in first[1]]

    def all_rows() -> Iterator[tuple[int, list[str]]]:
        yield first
        yield from rows

    return all_rows(), [str(position) for position in range(len(first[1]))]


def _rows(path: Path, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    separator = "\t" if ending(path) in (".tsv", ".tab", ".txt") else ","
    return separated_rows(read_lines(path, CELL_BYTES), path, separator, quotes)


def separated_rows(lines: Iterable[str], path: Path, separator: str, quotes: bool) -> Iterator[tuple[int, list[str]]]:
    """The cells of every row of CSV or TSV, with the number of its last line.

    Raises:
        UserError: broken quotes.
    """
    csv.field_size_limit(CELL_BYTES)
    lines = (f"{line}\n" for line in lines)
    reader = csv.reader(
        lines, delimiter=separator, strict=True, quoting=csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
    )
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{path}, line {reader.line_num} is no row of a table ({error}); fix its quotes, or set quotes = "
                "false where they are part of the text"
            ) from None
        if row is None:
            return
        yield reader.line_num, row


def _jsonl_rows(path: Path, columns: Sequence[str] | None, remedy: str) -> tuple[list[str], Iterator[list[Any]]]:
    records = _records(path)
    first = next(records, None)
    if first is None:
        raise UserError(f"{path} is empty; give a table with at least one row")
    chosen = _chosen_columns(columns, list(first), str(path), remedy)

    def rows() -> Iterator[list[Any]]:
        for number, record in enumerate(chain([first], records), start=1):
            for name in chosen:
                if name not in record:
                    raise UserError(f"{path}, object {number} has no key {name!r}; every object needs the same keys")
            yield [record[name] for name in chosen]

    return chosen, rows()


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(read_lines(path, CELL_BYTES), start=1):
        if line.strip():
            yield as_object(line, f"{path}, line {number}", "text")


def is_number(cell: str) -> bool:
    """Whether a cell of a file holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def list_of(values: Any) -> list[Any]:
    """The values of a column as Python objects: of a list, a NumPy array, or a column of pandas, polars or pyarrow."""
    for method in ("to_pylist", "to_list"):
        if hasattr(values, method):
            cells: list[Any] = getattr(values, method)()
            return cells
    return list(values)


def _columns_of(source: Any) -> dict[str, list[Any]]:
    """A table in memory as lists."""
    if isinstance(source, Mapping):
        table = {str(name): list_of(values) for name, values in source.items()}
    elif hasattr(source, "column_names"):  # datasets.Dataset, pyarrow
        table = {name: list_of(source[name]) for name in source.column_names}
    elif hasattr(source, "columns"):  # pandas, polars
        table = {str(name): list_of(source[name]) for name in source.columns}
    elif isinstance(source, Sequence) and source and isinstance(source[0], Mapping):
        names = [str(name) for name in source[0]]
        for number, record in enumerate(source, start=1):
            for name in names:
                if name not in record:
                    raise UserError(f"record {number} has no key {name!r}; every record needs the same keys")
        table = {name: [record[name] for record in source] for name in names}
    else:
        raise UserError(
            f"a {type(source).__name__} is no table; give a CSV, TSV or JSONL file, a data frame, or a list of dicts"
        )
    lengths = {len(values) for values in table.values()}
    if len(lengths) > 1:
        raise UserError(f"the columns have different lengths ({', '.join(map(str, sorted(lengths)))}); make them equal")
    return table


def _chosen_columns(columns: Sequence[str] | None, names: Sequence[str], where: str, remedy: str = "") -> list[str]:
    if columns is None:
        return list(names)
    for name in columns:
        if name not in names:
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, names))}"
            raise UserError(f"{where} has no column {name!r}; {hint}{f' ({remedy})' if remedy else ''}")
    return list(columns)


def as_object(line: str, where: str, key: str) -> dict[str, Any]:
    """The object on a line.

    Args:
        where: file and line, for the message.
        key: one that is wanted, for the message.

    Raises:
        UserError: no JSON, or no object.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where} is not valid JSON ({error}); write one object a line") from None
    if not isinstance(record, dict):
        raise UserError(f'{where} is not a JSON object; write {{"{key}": ..., ...}}')
    return record
