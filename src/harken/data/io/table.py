"""Named columns out of whatever a table comes as: files, data frames, records. All jobs and verbs read tables here.

    .csv .tsv .tab       and other text that a delimiter separates (`harken.data.io.separated`)
    .jsonl .json         JSON Lines, and JSON in several forms (`harken.data.io.records`)
    .parquet .xlsx       by the extra `tables` (`harken.data.io.workbooks`)
    pandas, polars       a frame, by its columns; likewise `datasets.Dataset` and pyarrow's tables
    dict, list of dicts  {"text": [...], "label": [...]} or [{"text": ..., "label": ...}, ...]

Files may be compressed. One without a header has columns "0", "1" ... A wrong name is answered with the nearest one.

>>> read_table([{"text": "good", "label": 1}, {"text": "bad", "label": 0}], ["label"])
{'label': [1, 0]}
>>> read_table({"text": ["good"]}, ["txet"])
Traceback (most recent call last):
    ...
harken.errors.UserError: the table has no column 'txet'; did you mean 'text'?
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO

from harken.data.io import workbooks
from harken.data.io.columns import Table, convert_number
from harken.data.io.columns import is_number as is_number
from harken.data.io.encodings import as_utf8, buffered, chunks_of, detect_wide, encoding_name, guess_encoding
from harken.data.io.files import decode_lines, ending, open_bytes, readable
from harken.data.io.records import ENDINGS as JSON
from harken.data.io.records import is_json, numbered_records
from harken.data.io.separated import CELL_BYTES, SAMPLE_BYTES, SAMPLE_ROWS, Dialect, separated_rows, sniff, with_names
from harken.errors import UserError

TABLES = (".csv", ".tsv", ".tab", *JSON, *workbooks.ENDINGS)
MOST_ROWS, MOST_CHARACTERS = 100_000, 50_000_000  # of a file that are read to infer what it holds
NAMED_RECORDS = 100  # objects at the beginning of JSON, whose keys are the columns of a sample

Row = tuple[int, list[Any]]  # the number of its last line, or its own, and its cells


def is_table(path: str | Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return ending(path) in TABLES or workbooks.is_workbook(path)


def has_lists(path: str | Path) -> bool:
    """Whether the name of a file says a format whose cells may be lists: JSON or Parquet."""
    return is_json(path) or ending(path) == ".parquet"


@dataclass(frozen=True)
class Reading:
    """The way in which a file is read; what is None is decided from its content."""

    header: bool | None = None
    quotes: bool | None = None
    separated: bool = False  # whether it is text that a delimiter separates, whatever its name says
    encoding: str = "utf-8"
    max_line_bytes: int = CELL_BYTES
    warn: bool = True  # of an encoding that is guessed


DEFAULT, NAMED = Reading(), Dialect(header=True)


@dataclass(frozen=True)
class OpenTable:
    """A file whose rows are read one by one."""

    path: str
    names: list[str]
    rows: Iterator[Row]  # blank ones have no cells
    dialect: Dialect = NAMED
    encoding: str = "utf-8"
    close: Callable[[], object] = lambda: None  # for rows that are not read to their end

    def select(
        self, columns: Sequence[str] | None = None, remedy: str = "", keep_blank: bool = False
    ) -> Iterator[tuple[Any, ...]]:
        """The cells of some columns of every row; a blank row is left out, or has empty cells.

        Raises:
            UserError: no such column, or a row that lacks one.
        """
        try:
            names = self.names if columns is None else columns
            located = [_locate(name, self.names, self.path, remedy) for name in names]
        except UserError:
            self.close()
            raise
        indices = [index for index, _ in located]
        is_text, has_header, width = self.dialect.delimiter is not None, self.dialect.header, len(self.names)
        is_plain = is_text and not any(index in self.dialect.patterns for index in indices)

        def rows() -> Iterator[tuple[Any, ...]]:
            pick = _picker(indices)
            for number, row in self.rows:
                if is_text and (not row or not row[0] or row[0].isspace()) and not _has_content(row):
                    if keep_blank:
                        yield ("",) * len(indices)
                    continue
                try:
                    cells = pick(row)
                except IndexError:
                    raise self._ragged(number, row) from None
                if has_header and len(row) > width and _has_content(row[width:]):
                    raise self._ragged(number, row)
                yield cells if is_plain else self._converted(number, cells, located)

        return rows()

    def _converted(
        self, number: int, cells: Sequence[Any], located: Sequence[tuple[int, list[str]]]
    ) -> tuple[Any, ...]:
        """Cells with numbers that `float` reads, and with the values of objects inside them."""
        values = []
        for cell, (index, keys) in zip(cells, located, strict=True):
            if pattern := self.dialect.patterns.get(index):
                cell = convert_number(cell, pattern)
            if cell is MISSING:
                raise self._missing(number, self.names[index])
            for key in keys:
                if not isinstance(cell, Mapping) or key not in cell:
                    raise self._missing(number, ".".join([self.names[index], *keys]))
                cell = cell[key]
            values.append(cell)
        return tuple(values)

    def _ragged(self, number: int, row: Sequence[Any]) -> UserError:
        self.close()
        first = "header" if self.dialect.header else "first line"
        return UserError(
            f"{self.path}, line {number} has {len(row)} cell{'s' * (len(row) != 1)}, but the {first} has "
            f"{len(self.names)}; fix the line, or quote cells that contain the separator"
        )

    def _missing(self, number: int, name: str) -> UserError:
        self.close()
        return UserError(f"{self.path}, object {number} has no key {name!r}; every object needs the same keys")


MISSING = object()  # the cell of a key that an object lacks


def _picker(indices: Sequence[int]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The cells at some indices of a row; raises IndexError where the row is too short."""
    if len(indices) > 1:
        return itemgetter(*indices)
    return lambda row: tuple(row[index] for index in indices)


def _has_content(cells: Sequence[Any]) -> bool:
    return any(str(cell).strip() for cell in cells)


def open_table(path: str | Path, columns: Sequence[str] | None = None, reading: Reading = DEFAULT) -> OpenTable:
    """Open a file of rows; the module has a list of its forms.

    Args:
        columns: names that are asked for: a first row that has them is the header.

    Raises:
        UserError: the file cannot be read, or has no row.
    """
    if workbooks.is_workbook(path):
        return _open_workbook(path, columns or (), reading)
    if is_json(path) and not reading.separated:
        return _open_records(path, reading)
    stream, encoding = open_decoded(path, reading.encoding, reading.warn)
    try:
        with readable(str(path), 0):
            sample = stream.read(SAMPLE_BYTES)
        is_whole = len(sample) < SAMPLE_BYTES
        if b"\0" in sample:
            raise UserError(f"{path} is no text file: it holds NUL bytes; give CSV, TSV, JSONL, Parquet or Excel")
        text = (sample if is_whole else sample[: sample.rfind(b"\n") + 1]).decode("utf-8-sig", "replace")
        given = Dialect(None, reading.quotes, reading.header)
        dialect = sniff(text, str(path), given, columns or (), is_whole)
    except UserError:
        stream.close()
        raise

    def rows() -> Iterator[Row]:
        with buffered(chain([sample], chunks_of(stream)), stream) as whole:
            lines = decode_lines(whole, str(path), reading.max_line_bytes)
            yield from separated_rows(lines, str(path), dialect)

    return OpenTable(str(path), dialect.names, rows(), dialect, encoding, stream.close)


def open_decoded(path: str | Path, encoding: str = "utf-8", warn: bool = True) -> tuple[BinaryIO, str]:
    """A file as UTF-8, and its encoding; where it is not UTF-8 and none was named, it is guessed, with a warning.

    Raises:
        UserError: as `harken.data.io.files.open_text`.
    """
    raw = open_bytes(path)
    with readable(str(path), 0):
        sample = raw.read(SAMPLE_BYTES)
        encoding = encoding_name(encoding)
        if encoding == "utf-8":
            encoding = detect_wide(sample) or guess_encoding(sample)
            if encoding in GUESSED and warn:
                message = f"{path} is not UTF-8 and is read as {encoding}; set data.encoding if it is another one"
                warnings.warn(message, stacklevel=2)
        return as_utf8(buffered(chain([sample], chunks_of(raw)), raw), str(path), encoding), encoding


GUESSED = ("cp1252", "latin-1")


def _open_records(path: str | Path, reading: Reading) -> OpenTable:
    records = ((n, r) for n, r in numbered_records(path, reading.max_line_bytes, reading.encoding) if r is not None)
    head = list(islice(records, NAMED_RECORDS))
    if not head:
        raise UserError(f"{path} is empty; give a table with at least one row")
    names = list(dict.fromkeys(name for _, record in head for name in record))
    rows = ((number, [record.get(name, MISSING) for name in names]) for number, record in chain(head, records))
    return OpenTable(str(path), names, rows)


def _open_workbook(path: str | Path, columns: Sequence[str], reading: Reading) -> OpenTable:
    if ending(path) == ".parquet":
        names, cells = workbooks.parquet_rows(path)
        return OpenTable(str(path), names, enumerate(cells, start=1))
    rows = workbooks.excel_rows(path)
    head = list(islice(rows, SAMPLE_ROWS))
    if not head:
        raise UserError(f"{path} is empty; give a table with at least one row")
    texts = [[str(cell) for cell in row] for row in head]
    dialect = replace(with_names(Dialect(header=reading.header), texts, columns), patterns={})
    body = chain(head[1:] if dialect.header else head, rows)
    return OpenTable(str(path), dialect.names, enumerate(body, start=1 + bool(dialect.header)), dialect)


def read_table(
    source: Any,
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = True,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    remedy: str = "",
) -> dict[str, list[Any]]:
    """The chosen columns (all where None), each as a list; cells of CSV and TSV files are strings.

    Args:
        header: whether the first row of a file names the columns; None: as its content shows.
        quotes: whether a quote at the beginning of a cell of a file encloses it; None: as its content shows.
        encoding: of a file of text.
        remedy: what to do about a column that is not there, beside what the error says itself.

    Raises:
        UserError: a file that cannot be read, a line with too few cells, or no such column.
    """
    if isinstance(source, str | Path):
        names, rows = table_rows(source, columns, header=header, quotes=quotes, encoding=encoding, remedy=remedy)
        cells: list[list[Any]] = [[] for _ in names]
        for row in rows:
            for column, cell in zip(cells, row, strict=True):
                column.append(cell)
        return dict(zip(names, cells, strict=True))
    table = _columns_of(source)
    names = list(table)
    located = {name: _locate(name, names, "the table", remedy) for name in (names if columns is None else columns)}
    return {name: _inner(table[names[index]], names[index], keys) for name, (index, keys) in located.items()}


def table_rows(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    header: bool | None = True,
    quotes: bool | None = None,
    encoding: str = "utf-8",
    remedy: str = "",
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The names of the chosen columns and the rows of a file, which are read one by one; see `read_table`."""
    table = open_table(path, columns, Reading(header, quotes, encoding=encoding))
    return list(table.names if columns is None else columns), table.select(columns, remedy)


def column_names(source: Any, *, header: bool | None = True) -> list[str]:
    """The names of the columns, without reading all of a file."""
    if isinstance(source, str | Path):
        table = open_table(source, reading=Reading(header))
        table.close()
        return table.names
    return list(_columns_of(source))


def read_sample(path: str | Path) -> Table:
    """The beginning of a file, to infer what it holds; its cells are text.

    Raises:
        UserError: the file cannot be read, or has a single row.
    """
    table = open_table(path, reading=Reading(warn=False))
    rows: list[list[str]] = []
    lists: set[str] = set()
    width, characters = len(table.names), 0
    for number, row in table.rows:
        if not _has_content(row):
            continue
        if len(row) > width and _has_content(row[width:]):
            raise table._ragged(number, row)
        if not rows:
            lists = {name for name, cell in zip(table.names, row, strict=False) if isinstance(cell, list)}
        cells = [_as_text(cell) for cell in [*row, *[""] * (width - len(row))][:width]]
        for index, pattern in table.dialect.patterns.items():
            cells[index] = convert_number(cells[index], pattern)
        rows.append(cells)
        characters += sum(map(len, cells))
        if len(rows) == MOST_ROWS or characters > MOST_CHARACTERS:
            table.close()
            break
    if not rows:
        raise UserError(f"{path} has no row below its header; give a table with at least a few examples")
    if len(rows) + bool(table.dialect.header) < 2:
        raise UserError(f"{path} has a single row; give a table with at least a few examples")
    letters = not table.dialect.quotes and any(cell.startswith('"') for row in rows for cell in row)
    has_header = bool(table.dialect.header)
    is_cut = len(rows) == MOST_ROWS or characters > MOST_CHARACTERS
    return Table(str(path), table.names, rows, has_header, not letters, frozenset(lists), table.encoding, is_cut)


def sample_columns(columns: Mapping[str, list[Any]]) -> Table:
    """The beginning of a table in memory, as `read_sample` gives that of a file."""
    rows = [[_as_text(cell) for cell in row] for row in islice(zip(*columns.values(), strict=True), MOST_ROWS)]
    lists = frozenset(name for name, cells in columns.items() if cells and isinstance(cells[0], list))
    return Table("the table", list(columns), rows, lists=lists)


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or value is MISSING or (isinstance(value, float) and value != value):
        return ""
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value, ensure_ascii=False, default=str)


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


def _locate(name: str, names: Sequence[str], where: str, remedy: str = "") -> tuple[int, list[str]]:
    """The index of a column, and the keys of the objects inside it that a dotted name reads.

    >>> _locate("translation.en", ["id", "translation"], "the table")
    (1, ['en'])
    """
    outer, *keys = [name] if name in names else name.split(".")
    if outer in names:
        return names.index(outer), keys
    near = get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, names))}"
    raise UserError(f"{where} has no column {name!r}; {hint}{f' ({remedy})' if remedy else ''}")


def _inner(cells: list[Any], name: str, keys: Sequence[str]) -> list[Any]:
    for key in keys:
        for row, cell in enumerate(cells, start=1):
            if not isinstance(cell, Mapping) or key not in cell:
                raise UserError(f"the table, row {row} has no {key!r} in column {name!r}; check the column's name")
        cells = [cell[key] for cell in cells]
    return cells
