"""Tables as spreadsheets, statistics programs, databases and download sites write them."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .case import Case

TEXTS = ["what a good film", "the worst of all stories", "we liked it a lot", "far too long for me"]
REVIEWS = [(f"{TEXTS[number % 4]}, part {number}", "good" if number % 2 == 0 else "bad") for number in range(40)]
PLAIN = [(text.replace(",", ""), label) for text, label in REVIEWS]
FRENCH = ["quel bon film", "la pire des histoires", "cela nous a plu", "bien trop long pour moi"]
PAIRS = [(f"{TEXTS[number % 4]} {number}", f"{FRENCH[number % 4]} {number}") for number in range(40)]
JAPANESE = [(f"the black cat sleeps {number}", f"黒い猫が{number}匹眠っています。") for number in range(40)]
THAI = [(f"แมวดำตัวที่{number}กำลังนอนหลับอยู่บนโซฟา", "ดี" if number % 2 else "แย่") for number in range(40)]
PRICES = [(f"2024-{1 + number // 28:02}-{1 + number % 28:02}", number * 1.5 + number % 7) for number in range(56)]


@dataclass(frozen=True)
class Rows:
    """What a table that is read right has.

    Args:
        names: of its columns.
        first: the cells of its first row, as text.
        count: its rows.
        header: whether its first row names the columns.
        task: the job that follows.
        keys: some of the keys that `[data]` gets.
    """

    names: Sequence[str]
    first: Sequence[str]
    count: int
    header: bool = True
    task: str | None = None
    keys: dict[str, Any] | None = None


@dataclass(frozen=True)
class Refused:
    """Words of the error on a table that cannot be read."""

    message: str


def separated(
    rows: Iterable[Sequence[Any]], delimiter: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL
) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return text.getvalue()


def joined(rows: Iterable[Sequence[Any]], delimiter: str = "\t", end: str = "\n") -> str:
    return "".join(delimiter.join(map(str, row)) + end for row in rows)


def zipped(*members: tuple[str, str]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    return archive.getvalue()


def write_excel(rows: Sequence[Sequence[Any]]) -> Any:
    def write(path: Path) -> None:
        import openpyxl

        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(list(row))
        book.save(path)

    return write


def write_parquet(columns: dict[str, list[Any]]) -> Any:
    def write(path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)

    return write


def columns_of(rows: Sequence[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def records_of(rows: Sequence[Sequence[Any]], *names: str) -> list[dict[str, Any]]:
    return [dict(zip(names, row, strict=True)) for row in rows]


NAMED = [("text", "label"), *REVIEWS]
LABELLED = Rows(["text", "label"], REVIEWS[0], 40, task="classify")
UNNAMED = Rows(["0", "1"], PLAIN[0], 40, header=False, task="classify", keys={"header": False, "text_column": "0"})
TRANSLATED = Rows(["en", "fr"], PAIRS[0], 40, task="translate", keys={"source_column": "en", "target_column": "fr"})
CSV = separated(NAMED)
GERMAN = [("Datum", "Preis"), *((day, f"{price:.2f}".replace(".", ",")) for day, price in PRICES)]
SERIES = {"target_column": "Preis"}
QUOTED = [('"Indeed," he said.', "« En effet », dit-il."), ('She said "no"', 'Elle a dit "non"')]

CASES = [
    Case("plain.csv", CSV.encode(), LABELLED, "plain CSV"),
    Case("crlf.csv", separated(NAMED, end="\r\n").encode("utf-8-sig"), LABELLED, "Excel's CSV UTF-8: BOM, CRLF"),
    Case(
        "excel.csv", separated(NAMED, ";", "\r\n").encode("utf-8-sig"), LABELLED, "Excel's CSV where commas are decimal"
    ),
    Case("sep.csv", ("sep=;\r\n" + separated(NAMED, ";", "\r\n")).encode(), LABELLED, "Excel's line sep=;"),
    Case("unicode.txt", separated(NAMED, "\t", "\r\n").encode("utf-16"), LABELLED, "Excel's Unicode Text: UTF-16 TSV"),
    Case("utf16le.tsv", separated(NAMED, "\t").encode("utf-16-le"), LABELLED, "UTF-16 without a mark, little endian"),
    Case("utf16be.csv", CSV.encode("utf-16-be"), LABELLED, "UTF-16 without a mark, big endian"),
    Case(
        "german.csv",
        separated(GERMAN, ";", "\r\n").encode("cp1252"),
        Rows(["Datum", "Preis"], ["2024-01-01", "0.00"], 56, task="forecast", keys=SERIES),
        "decimal commas",
    ),
    Case(
        "windows.csv",
        separated([("text", "label"), *((f"{text} café", label) for text, label in REVIEWS)], ";").encode("cp1252"),
        Rows(["text", "label"], [f"{REVIEWS[0][0]} café", "good"], 40, task="classify", keys={"encoding": "cp1252"}),
        "Windows-1252",
    ),
    Case(
        "pandas.csv",
        separated([("", "text", "label"), *((n, *row) for n, row in enumerate(REVIEWS))]).encode(),
        Rows(["0", "text", "label"], ["0", *REVIEWS[0]], 40, task="classify", keys={"text_column": "text"}),
        "pandas' to_csv with its index",
    ),
    Case(
        "kaggle.csv",
        separated(
            [
                ("Unnamed: 0", "text", "label"),
                *((n, f"{text}\n\nsecond line", label) for n, (text, label) in enumerate(REVIEWS)),
            ]
        ).encode(),
        Rows(["Unnamed: 0", "text", "label"], ["0", f"{REVIEWS[0][0]}\n\nsecond line", "good"], 40, task="classify"),
        "Kaggle's index column and line feeds in cells",
    ),
    Case(
        "tatoeba.tsv",
        joined((100 + 3 * n, "eng", text) for n, (text, _) in enumerate(PAIRS)).encode(),
        Rows(["0", "1", "2"], ["100", "eng", PAIRS[0][0]], 40, header=False),
        "Tatoeba's sentences: id, language, text",
    ),
    Case(
        "fra.txt",
        joined([("Run.", "Cours.", "CC-BY 2.0"), *((*pair, "CC-BY 2.0") for pair in PAIRS)]).encode(),
        Rows(["0", "1", "2"], ["Run.", "Cours.", "CC-BY 2.0"], 41, header=False),
        "sentence pairs with an attribution, the shortest first",
    ),
    Case("named.tsv", joined([("en", "fr"), *PAIRS]).encode(), TRANSLATED, "pairs below language codes"),
    Case("pairs.csv", separated([("en", "fr"), *PAIRS]).encode(), TRANSLATED, "pairs in CSV"),
    Case(
        "bare.tsv",
        joined(PAIRS).encode(),
        Rows(["0", "1"], PAIRS[0], 40, header=False, task="translate", keys={"source_column": 0, "header": False}),
        "pairs without a header",
    ),
    Case(
        "japanese.tsv",
        joined(JAPANESE).encode(),
        Rows(["0", "1"], JAPANESE[0], 40, header=False, task="translate"),
        "Japanese without spaces",
    ),
    Case(
        "thai.csv",
        separated([("text", "label"), *THAI]).encode(),
        Rows(["text", "label"], THAI[0], 40, task="classify", keys={"text_column": "text"}),
        "Thai without spaces",
    ),
    Case(
        "letters.tsv",
        joined([*QUOTED, *PAIRS]).encode(),
        Rows(["0", "1"], QUOTED[0], 42, header=False, task="translate"),
        "quotes that are letters in TSV",
    ),
    Case(
        "opened.tsv",
        joined([('"We are late', "Nous sommes en retard"), ('and we run"', "et nous courons"), *PAIRS]).encode(),
        Rows(["0", "1"], ['"We are late', "Nous sommes en retard"], 42, header=False, task="translate"),
        "a quotation over two lines of TSV",
    ),
    Case(
        "enclosed.tsv",
        separated([("en", "fr"), *PAIRS], "\t", quoting=csv.QUOTE_ALL).encode(),
        TRANSLATED,
        "TSV with all cells in quotes",
    ),
    Case(
        "doubled.tsv",
        separated([("en", "fr"), ('he says "hi"', 'il dit "salut"'), *PAIRS], "\t").encode(),
        Rows(["en", "fr"], ['he says "hi"', 'il dit "salut"'], 41, task="translate"),
        "doubled quotes in TSV",
    ),
    Case(
        "feeds.tsv",
        separated([("en", "fr"), ("two\nlines", "deux\nlignes"), *PAIRS], "\t").encode(),
        Rows(["en", "fr"], ["two\nlines", "deux\nlignes"], 41, task="translate"),
        "line feeds in cells of TSV",
    ),
    Case(
        "header.csv",
        separated(
            [('Body "full"', "queue"), *((f"{text}, and much more of it", label) for text, label in REVIEWS)]
        ).encode(),
        Rows(['Body "full"', "queue"], [f"{REVIEWS[0][0]}, and much more of it", "good"], 40, task="classify"),
        "quotes in the name of a column",
    ),
    Case(
        "r.tsv",
        (
            '"text"\t"label"\n' + "".join(f'"{n}"\t"{text}"\t"{label}"\n' for n, (text, label) in enumerate(REVIEWS))
        ).encode(),
        Rows(["0", "text", "label"], ["0", *REVIEWS[0]], 40, task="classify"),
        "R's write.table: no name above the names of rows",
    ),
    Case(
        "sqlite.csv",
        separated(REVIEWS, end="\r\n").encode(),
        Rows(["0", "1"], REVIEWS[0], 40, False, "classify"),
        "sqlite's .mode csv",
    ),
    Case(
        "bars.csv",
        joined([("text", "label"), *PLAIN], "|").encode(),
        Rows(["text", "label"], PLAIN[0], 40, task="classify"),
        "bars",
    ),
    Case(
        "tabs.csv",
        joined([("text", "label"), *PLAIN]).encode(),
        Rows(["text", "label"], PLAIN[0], 40, task="classify"),
        "tabs in a .csv file",
    ),
    Case("commas.tsv", CSV.encode(), LABELLED, "commas in a .tsv file"),
    Case("mac.csv", separated(NAMED, end="\r").encode(), LABELLED, "carriage returns alone"),
    Case("mixed.csv", CSV.replace("\n", "\r\n", 5).encode(), LABELLED, "mixed line ends"),
    Case("rows.csv", ("\n\n" + CSV + "\n,\n \n").encode(), LABELLED, "blank rows before and after"),
    Case(
        "columns.csv",
        "".join(f"{line},,\n" for line in separated(NAMED).splitlines()).encode(),
        LABELLED,
        "empty columns at the end",
    ),
    Case(
        "twice.csv",
        separated([("text", "text", "label"), *((text, text[:9], label) for text, label in REVIEWS)]).encode(),
        Rows(["text", "text.1", "label"], [REVIEWS[0][0], REVIEWS[0][0][:9], "good"], 40, task="classify"),
        "two columns of one name",
    ),
    Case(
        "gaps.csv",
        separated([("text", "label"), ("no label", ""), *REVIEWS]).encode(),
        Rows(["text", "label"], ["no label", ""], 41, task="classify"),
        "empty cells",
    ),
    Case(
        "emoji.csv",
        separated([("text", "label"), *((f"{text} 👩‍👩‍👧🎉", label) for text, label in REVIEWS)]).encode(),
        Rows(["text", "label"], [f"{REVIEWS[0][0]} 👩‍👩‍👧🎉", "good"], 40, task="classify"),
        "emoji",
    ),
    Case(
        "separators.csv",
        separated([("text", "label"), ("one\u2028line\x85still\x0cone", "good"), *REVIEWS]).encode(),
        Rows(["text", "label"], ["one\u2028line\x85still\x0cone", "good"], 41, task="classify"),
        "Unicode's line separators in cells",
    ),
    Case(
        "long.csv",
        separated([("text", "label"), ("word " * 300_000, "good"), *REVIEWS]).encode(),
        Rows(["text", "label"], ["word " * 300_000, "good"], 41, task="classify"),
        "a cell of a megabyte and a half",
    ),
    Case(
        "wide.csv",
        separated([[f"c{n}" for n in range(3000)], *([row * n for n in range(3000)] for row in range(30))]).encode(),
        Rows([f"c{n}" for n in range(3000)], ["0"] * 3000, 30),
        "three thousand columns",
    ),
    Case(
        "lines.csv",
        "".join(["review\n", *(f"{text}\n" for text, _ in PLAIN)]).encode(),
        Rows(["review"], PLAIN[0][:1], 40),
        "one column",
    ),
    Case(
        "percent.csv",
        separated([("Day", "Share"), *((day, f"{price:.1f}%") for day, price in PRICES)]).encode(),
        Rows(["Day", "Share"], ["2024-01-01", "0.0"], 56, task="forecast"),
        "percent signs",
    ),
    Case(
        "thousands.csv",
        separated([("Day", "Sales"), *((day, f"{1000 + 7 * n * n:,}") for n, (day, _) in enumerate(PRICES))]).encode(),
        Rows(["Day", "Sales"], ["2024-01-01", "1000"], 56, task="forecast"),
        "grouped thousands",
    ),
    Case(
        "dates.csv",
        separated([("When", "Load"), *PRICES]).encode(),
        Rows(["When", "Load"], ["2024-01-01", "0.0"], 56, task="forecast", keys={"target_column": "Load"}),
        "dates and numbers",
    ),
    Case(
        "lines.jsonl",
        "".join(json.dumps(row) + "\n" for row in records_of(REVIEWS, "text", "label")).encode(),
        LABELLED,
        "JSON Lines",
    ),
    Case(
        "lines.json",
        "".join(json.dumps(row) + "\r\n" for row in records_of(REVIEWS, "text", "label")).encode("utf-8-sig"),
        LABELLED,
        "JSON Lines called .json, with BOM and CRLF",
    ),
    Case("list.json", json.dumps(records_of(REVIEWS, "text", "label")).encode(), LABELLED, "a list of objects"),
    Case(
        "pretty.json",
        json.dumps(records_of(REVIEWS, "text", "label"), indent=2).encode(),
        LABELLED,
        "the same, indented",
    ),
    Case("lists.json", json.dumps(columns_of(REVIEWS, "text", "label")).encode(), LABELLED, "an object of lists"),
    Case(
        "data.json",
        json.dumps({"version": "1.0", "data": records_of(REVIEWS, "text", "label")}).encode(),
        LABELLED,
        "rows under a key",
    ),
    Case(
        "frame.json",
        json.dumps(
            {name: dict(enumerate(column)) for name, column in columns_of(REVIEWS, "text", "label").items()}
        ).encode(),
        LABELLED,
        "pandas' to_json",
    ),
    Case(
        "split.json",
        json.dumps({"columns": ["text", "label"], "index": [], "data": REVIEWS}).encode(),
        LABELLED,
        "orient=split",
    ),
    Case("a.csv.gz", gzip.compress(CSV.encode()), LABELLED, "gzip"),
    Case("a.csv.bz2", bz2.compress(CSV.encode()), LABELLED, "bzip2"),
    Case("a.csv.xz", lzma.compress(CSV.encode()), LABELLED, "xz"),
    Case("a.csv.zip", zipped(("__MACOSX/._a.csv", ""), ("a.csv", CSV)), LABELLED, "a zip file of macOS with one table"),
    Case("a.parquet", None, LABELLED, "Parquet", write_parquet(columns_of(REVIEWS, "text", "label")), "pyarrow"),
    Case(
        "nested.parquet",
        None,
        Rows(["id", "translation"], ["0", json.dumps(dict(zip(("en", "fr"), PAIRS[0], strict=True)))], 40),
        "objects in Parquet",
        write_parquet({"id": list(range(40)), "translation": records_of(PAIRS, "en", "fr")}),
        "pyarrow",
    ),
    Case("a.xlsx", None, LABELLED, "Excel", write_excel(NAMED), "openpyxl"),
    Case(
        "numbers.xlsx",
        None,
        Rows(["Day", "Sales"], ["2024-01-01", "0"], 56, task="forecast"),
        "numbers and dates in Excel",
        write_excel([("Day", "Sales"), *PRICES]),
        "openpyxl",
    ),
    Case(
        "bare.xlsx",
        None,
        Rows(["0", "1"], PAIRS[0], 40, False, "translate"),
        "pairs in Excel",
        write_excel(PAIRS),
        "openpyxl",
    ),
    Case("one.csv", b"text,label\na good film,good\n", Rows(["text", "label"], ["a good film", "good"], 1), "one row"),
    Case("head.csv", b"text,label\n", Refused("has no row below its header"), "a header alone"),
    Case(
        "head.xlsx",
        None,
        Refused("has no row below its header"),
        "an Excel header alone",
        write_excel(NAMED[:1]),
        "openpyxl",
    ),
    Case("empty.csv", b"\xef\xbb\xbf\r\n \r\n", Refused("is empty"), "nothing but a BOM and blank lines"),
    Case("empty.json", b" ", Refused("is empty"), "an empty JSON file"),
    Case("empty.xlsx", None, Refused("is empty"), "an empty workbook", write_excel([]), "openpyxl"),
    Case(
        "ragged.csv",
        b"text,label\ngood,1\nbad, really,0\n",
        Refused("line 3 has 3 cells, but the header has 2"),
        "unquoted commas",
    ),
    Case("short.csv", b"text,label\ngood,1\nbad\n", Refused("line 3 has 1 cell, but the header has 2"), "a short row"),
    Case(
        "quotes.csv",
        b'text,label\n"open,1\nbad,0\n',
        Refused("line 3 is no row of a table"),
        "a quote that never closes",
    ),
    Case("zero.csv", b"text,label\ngo\0od,1\nbad,0\n", Refused("holds NUL bytes"), "NUL bytes"),
    Case(
        "damaged.csv",
        b"text,label\n" + "été,1\n".encode() * 30 + b"\xff,0\n",
        Refused("line 32 is not valid UTF-8"),
        "one wrong byte",
    ),
    Case("number.json", b"7\n", Refused("is no table in JSON"), "JSON without a table"),
    Case("cut.json", b'[{"text": "a"}, {"te', Refused("is not valid JSON"), "JSON that is cut"),
    Case("cut.csv.gz", gzip.compress(CSV.encode())[:90], Refused("middle of its compressed data"), "gzip that is cut"),
    Case(
        "two.csv.zip",
        zipped(("a.csv", CSV), ("b.csv", CSV)),
        Refused("holds 2 files (a.csv, b.csv): unpack it"),
        "a zip file with two tables",
    ),
    Case("old.xls", b"\xd0\xcf\x11\xe0", Refused("save it as .xlsx or as CSV"), "a workbook of Excel 2003"),
    Case("renamed.xlsx", CSV.encode(), Refused("is no Excel workbook"), "CSV called .xlsx", None, "openpyxl"),
    Case("renamed.parquet", CSV.encode(), Refused("is no Parquet file"), "CSV called .parquet", None, "pyarrow"),
]
