r"""Rows of cells that a delimiter separates: CSV, TSV and their relatives, as any program writes them.

What a caller does not say is decided from the beginning of the file, here and nowhere else:

    delimiter   comma, tab, semicolon or bar: the one of the file's ending where its rows have as many cells as the
                first one, else the one whose rows do; a first line `sep=;`, as Excel writes it, names it
    quotes      enclose cells of CSV. In TSV they do where a writer needs them (around a tab, a line feed or a doubled
                quote), or where all texts have them; else they are letters, and a line is always a row
    header      the first row names the columns where it has names that are asked for, usual names (text, label, en),
                or names above numbers, dates or much longer texts
    numbers     1,5 and 1.234,5, 1,234 and 12.5% become 1.5, 1234.5, 1234 and 12.5 in columns that hold nothing else

>>> dialect = sniff('"Datum";"Preis"\n2024-01-01;1,5\n2024-01-02;2,25\n', "export.csv")
>>> dialect.delimiter, dialect.header, dialect.names
(';', True, ['Datum', 'Preis'])
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from operator import methodcaller

from harken.data.io.columns import Column, is_number
from harken.errors import UserError

CELL_BYTES = 10_000_000  # the longest cell that is read as text
SAMPLE_BYTES = 1 << 20  # of a file, from which its dialect is decided
SAMPLE_ROWS, SAMPLE_CELLS = 1000, 100_000  # of these bytes, that are looked at
DELIMITERS = (",", "\t", ";", "|")
SEPARATOR_LINE = re.compile(r"sep=(.)", re.IGNORECASE)  # the first line of Excel's exports
DECIMAL = re.compile(r"[-+]?[\d.]+,\d+\s?%?")
CONSISTENT = 0.9  # share of rows that have as many cells as the first

NAME = re.compile(r"[^\W\d].{0,199}|[#%$€(\[].{0,199}", re.DOTALL)  # of a column
IDENTIFIER = re.compile(r"[^\W\d]\w*_\w+")
SENTENCE_END = re.compile(r"[.!?。！？…]\W*$")
USUAL = """text texts sentence sentences label labels class category source target date title audio image caption id
index idx src tgt trg review reviews comment message tweet content body question answer context summary headline
description topic sentiment intent score rating premise hypothesis sentence1 sentence2 input output prompt response
reference translation transcript filename path url lang language value timestamp time author user name subject tokens
tags words"""
CODES = """en eng fr fra fre de deu ger es spa it ita pt por nl nld sv swe da dan no nor nb fi fin is isl pl pol cs ces
sk slk sl slv hr hrv sr srp bg bul ro ron hu hun el ell ru rus uk ukr tr tur ar ara he heb fa fas hi hin bn ben ta tam
te tel ur urd zh zho cmn ja jpn ko kor th tha vi vie id ind ms msa km khm lo lao my mya ka kat hy hye et est lv lav
lt lit ga gle cy cym eu eus ca cat gl glg mt mlt sw swa la lat eo epo english french german spanish italian portuguese
dutch swedish danish norwegian finnish icelandic polish czech hungarian romanian greek russian ukrainian turkish arabic
hebrew persian hindi chinese japanese korean thai vietnamese indonesian latin deutsch englisch französisch spanisch
italienisch français francais anglais allemand espagnol español inglés francés alemán italiano inglese francese tedesco
português inglês nederlands svenska dansk norsk suomi polski čeština magyar română ελληνικά русский английский
українська türkçe العربية עברית فارسی हिन्दी 中文 英文 英语 日本語 英語 한국어 영어 ไทย tiếng"""
KNOWN_NAMES, LANGUAGES = frozenset(USUAL.split()), frozenset(CODES.split())


@dataclass(frozen=True)
class Dialect:
    """The form of a file; what is None is decided from its content."""

    delimiter: str | None = None
    quotes: bool | None = None
    header: bool | None = None
    names: list[str] = field(default_factory=list)  # of the columns; numbers where there is no header
    patterns: dict[int, re.Pattern[str]] = field(default_factory=dict)  # columns of numbers that `float` does not read
    skipped: int = 0  # lines before the first row


UNKNOWN = Dialect()


def sniff(
    sample: str, name: str, given: Dialect = UNKNOWN, columns: Sequence[str] = (), is_whole: bool = True
) -> Dialect:
    """The dialect of a file, by its beginning.

    Args:
        name: of the file; its ending tells which delimiter is tried first.
        given: what the caller knows.
        columns: names that are asked for.
        is_whole: whether the sample is all of the file; otherwise its last row may be cut.

    Raises:
        UserError: the sample has no row.
    """
    lines = sample.split("\n")
    skipped = 0
    if separator := SEPARATOR_LINE.fullmatch(lines[0].removesuffix("\r").removeprefix("\ufeff")):
        given, skipped = replace(given, delimiter=given.delimiter or separator[1]), 1
    lines = [line.removesuffix("\r") for line in lines[skipped:]]
    if not any(map(str.strip, lines)):
        raise UserError(f"{name} is empty; give a table with at least one row")
    delimiter = given.delimiter or _delimiter(lines, name, given.quotes, is_whole)
    quotes = given.quotes if given.quotes is not None else delimiter != "\t" or _is_quoted(lines, delimiter, is_whole)
    rows = _sample_rows(lines, delimiter, quotes, is_whole)
    if not rows:
        raise UserError(f"{name} has a quote that is never closed; close it, or remove it")
    dialect = with_names(replace(given, delimiter=delimiter, quotes=quotes), rows, columns)
    blank = next(index for index, line in enumerate(lines) if line.strip()) if dialect.header else 0
    return replace(dialect, skipped=skipped + blank)


def with_names(dialect: Dialect, rows: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> Dialect:
    """The dialect with what the first rows of a table say about header, names and numbers."""
    width = Counter(map(len, rows[1:] or rows)).most_common(1)[0][0]
    first, body = list(rows[0]), [[*row, *[""] * (width - len(row))][:width] for row in rows[1:]]
    if len(first) == width - 1 and dialect.header is not False:
        first.insert(0, "")  # R writes no name above the names of rows
    header = dialect.header if dialect.header is not None else is_header(first, body, columns)
    body = body if header else [first, *body]
    used = [index for row in ([first, *body] if header else body) for index, cell in enumerate(row) if cell.strip()]
    count = max(used, default=0) + 1  # without empty columns at the end
    names = column_names_of([*first, *[""] * count][:count]) if header else [str(index) for index in range(count)]
    patterns = {}
    for index, name in enumerate(names):
        column = Column(name, [row[index] for row in body if index < len(row)])
        if pattern := column.number_pattern(dialect.delimiter == ";"):
            patterns[index] = pattern
    return replace(dialect, header=header, names=names, patterns=patterns)


def is_header(first: Sequence[str], body: Sequence[Sequence[str]], columns: Sequence[str] = ()) -> bool:
    """Whether the first row of a table names its columns."""
    cells = [cell.strip() for cell in first]
    if columns and not all(map(str.isdecimal, columns)) and set(columns) <= set(cells):
        return True
    while cells and not cells[-1]:
        cells.pop()
    names = [cell for cell in cells if cell]
    if not names or len(names) < len(cells) - 1 or not all(NAME.fullmatch(name) for name in names):
        return False
    table = [Column(cell, [row[index] for row in body if index < len(row)]) for index, cell in enumerate(cells)]
    if any(column.name and column.name in column.filled for column in table):
        return False
    lower = {name.lower() for name in names}
    if lower & KNOWN_NAMES or len(lower & LANGUAGES) > 1 or any(map(IDENTIFIER.fullmatch, names)):
        return True
    if any(
        column.is_number or column.number_pattern() or column.kind in ("date", "audio", "image") for column in table
    ):
        return True
    if all(column.kind in ("text", "empty") for column in table) or any(map(SENTENCE_END.search, names)):
        return False  # two short sentences look like two names
    return sum(column.characters for column in table) > 3 * sum(map(len, names))


def column_names_of(first: Sequence[str]) -> list[str]:
    """The names in a header; a column without one is called by its number, and equal names are numbered.

    >>> column_names_of(["", "text", "text", "label "])
    ['0', 'text', 'text.1', 'label']
    """
    names: list[str] = []
    for index, cell in enumerate(first):
        name = base = cell.strip() or str(index)
        count = 0
        while name in names:
            count += 1
            name = f"{base}.{count}"
        names.append(name)
    return names


def separated_rows(lines: Iterable[str], where: str, dialect: Dialect) -> Iterator[tuple[int, list[str]]]:
    """The cells of every row that is not the header, with the number of its last line.

    A blank line is a row without cells, or with one that is empty.

    Raises:
        UserError: broken quotes.
    """
    lines = islice(lines, dialect.skipped, None)
    delimiter = str(dialect.delimiter)
    rows = _quoted_rows(lines, where, delimiter) if dialect.quotes else plain_rows(lines, delimiter)
    rows = ((number + dialect.skipped, row) for number, row in rows) if dialect.skipped else rows
    if dialect.header:
        next((row for _, row in rows if any(map(str.strip, row))), None)
    return rows


def plain_rows(lines: Iterable[str], delimiter: str, first: int = 1) -> Iterator[tuple[int, list[str]]]:
    """The cells of lines without quotes, with the number of the line."""
    return enumerate(map(methodcaller("split", delimiter), lines), start=first)


def _quoted_rows(lines: Iterable[str], where: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(CELL_BYTES)
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise UserError(
                f"{where}, line {reader.line_num} is no row of a table ({error}); fix its quotes, or set quotes = "
                "false where they are part of the text"
            ) from None
        if row is None:
            return
        yield reader.line_num, row


def _sample_rows(lines: Sequence[str], delimiter: str, quotes: bool, is_whole: bool) -> list[list[str]]:
    """The first rows that are not blank; a broken one, and a last one that is cut, are left out."""
    rows: list[list[str]] = []
    cells = 0
    try:
        every = _quoted_rows(lines, "", delimiter) if quotes else plain_rows(lines, delimiter)
        for _, row in every:
            if any(map(str.strip, row)):
                rows.append(row)
                cells += len(row)
            if len(rows) == SAMPLE_ROWS or (cells > SAMPLE_CELLS and len(rows) > 20):
                return rows
    except UserError:
        is_whole = True  # the row that is broken is not among them
    return rows if is_whole or len(rows) < 2 else rows[:-1]


def _delimiter(lines: Sequence[str], name: str, quotes: bool | None, is_whole: bool) -> str:
    """The delimiter of the file's ending where its rows are consistent, else another where they are."""
    usual = "," if ".csv" in name.lower() else "\t"
    first = next(line for line in lines if line.strip())
    consistent = {}
    for delimiter in sorted(DELIMITERS, key=lambda delimiter: delimiter != usual):
        for quoted in (True, False) if quotes is None else (quotes,):
            rows = _sample_rows(lines, delimiter, quoted, is_whole) if delimiter in first else []
            if len(rows) and len(rows[0]) > 1 and delimiter not in consistent:
                widths = {len(rows[0]), len(rows[0]) + 1}  # R writes no name above the names of rows
                if sum(len(row) in widths for row in rows) >= CONSISTENT * len(rows):
                    consistent[delimiter] = rows
    if usual == "," and ";" in consistent:
        cells = [cell for row in consistent[";"] for cell in row if "," in cell]
        if all(DECIMAL.fullmatch(cell.strip()) for cell in cells):
            return ";"  # commas are in numbers alone
    return usual if usual in consistent or not consistent else next(iter(consistent))


def _is_quoted(lines: Sequence[str], delimiter: str, is_whole: bool) -> bool:
    """Whether quotes of TSV enclose cells rather than being letters."""
    rows = [line.split(delimiter) for line in lines if line.strip()]
    quoted = [cell for row in rows for cell in row if cell.startswith('"')]
    if not quoted:
        return False
    is_enclosed = all(map(_is_enclosed, quoted))
    if is_enclosed and all(cell.startswith('"') or _is_plain_number(cell) for row in rows for cell in row):
        return True
    if len(set(map(len, rows))) == 1:  # no cell holds a tab or a line feed
        return is_enclosed and any('""' in cell[1:-1] for cell in quoted)
    try:
        enclosed = [row for _, row in _quoted_rows(lines if is_whole else lines[:-1], "", delimiter) if row]
    except UserError:
        return False  # a quote that is not closed, or text behind one
    return _evenness(enclosed) > _evenness(rows)


def _is_enclosed(cell: str) -> bool:
    return len(cell) > 1 and cell.endswith('"') and '"' not in cell[1:-1].replace('""', "")


def _evenness(rows: Sequence[Sequence[str]]) -> float:
    """The share of the rows that have as many cells as most have."""
    return Counter(map(len, rows)).most_common(1)[0][1] / len(rows) if rows else 0.0


def _is_plain_number(cell: str) -> bool:
    """Whether a writer that quotes all texts would leave the cell without quotes."""
    return is_number(cell) or cell.strip() in ("", "NA", "NULL", "TRUE", "FALSE")
