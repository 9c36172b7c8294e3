"""Tables of named columns, from files and from memory."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
from pathlib import Path

import pytest

from harken.data.io.separated import SAMPLE_BYTES, is_header
from harken.data.io.table import column_names, read_table
from harken.errors import UserError


def test_csv_has_quotes_line_breaks_and_a_header(tmp_path: Path) -> None:
    path = tmp_path / "reviews.csv"
    path.write_text('text,label\n"good, really",1\n"two\nlines",0\n\n', encoding="utf-8")
    assert read_table(path) == {"text": ["good, really", "two\nlines"], "label": ["1", "0"]}
    assert column_names(path) == ["text", "label"]


def test_tsv_without_a_header_counts_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "data.tsv.gz"
    path.write_bytes(gzip.compress(b"1\tgood\n0\tbad\n"))
    assert read_table(path, ["1", "0"], header=False) == {"1": ["good", "bad"], "0": ["1", "0"]}


def test_jsonl_keeps_types(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [{"a": 1, "b": [2.5]}, {"b": [3], "a": 4}]))
    assert read_table(path, ["b", "a"]) == {"b": [[2.5], [3]], "a": [1, 4]}


def test_an_encoding_is_guessed_with_a_warning_or_named(tmp_path: Path) -> None:
    path = tmp_path / "menu.csv"
    path.write_bytes("text,label\ncafé,1\nthé,0\n".encode("cp1252"))
    with pytest.warns(UserWarning, match="menu.csv is not UTF-8 and is read as cp1252; set data.encoding"):
        assert read_table(path, ["text"]) == {"text": ["café", "thé"]}
    assert read_table(path, ["text"], encoding="cp437") == {"text": ["cafΘ", "thΘ"]}
    with pytest.raises(UserError, match=r'data\.encoding is "utf-9", which is no encoding'):
        read_table(path, encoding="utf-9")


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    os.mkfifo(path)
    rows = "".join(f"a film of {number} parts,{number % 2}\n" for number in range(100_000))  # more than the sample
    writer = threading.Thread(target=lambda: path.write_text(f"text,label\n{rows}"))
    writer.start()
    table = read_table(path)
    writer.join()
    assert len(table["text"]) == 100_000 and table["text"][-1] == "a film of 99999 parts"


def test_a_quote_after_the_sample_is_a_letter_of_tsv_and_encloses_in_csv(tmp_path: Path) -> None:
    rows = "".join(f"a film of {number} parts\t{number % 2}\n" for number in range(60_000))
    tsv, csv_ = tmp_path / "a.tsv", tmp_path / "a.csv"
    tsv.write_text(f'text\tlabel\n{rows}"Go on\t1\n')
    csv_.write_text(f"text\tlabel\n{rows}".replace("\t", ",") + '"go, on",1\n')
    assert tsv.stat().st_size > SAMPLE_BYTES
    assert read_table(tsv)["text"][-1] == '"Go on' and read_table(csv_)["text"][-1] == "go, on"


@pytest.mark.parametrize(
    ("first", "body", "is_named"),
    [
        (["date", "text"], [["date", "what day is it today"], ["time", "what time is it"]] * 5, False),
        (["Go.", "Va !"], [["we are leaving tomorrow", "nous partons demain"]] * 9, False),
        (["Hello", "Bonjour"], [["we are leaving tomorrow", "nous partons demain"]] * 9, False),
        (["English", "French"], [["we are leaving", "nous partons"]] * 9, True),
        (["English", "Deutsch"], [["we are leaving", "wir gehen"]] * 9, True),
        (["日本語", "英語"], [["行きます", "we are leaving"]] * 9, True),
        (["user_id", "phrase"], [["x7", "we are leaving"], ["x9", "we stay here"]], True),
        (["How happy are you with us, from 1 to 5?", "Day"], [["3", "2024-01-01"], ["4", "2024-01-02"]], True),
        (["1", "good film"], [["0", "bad film"]] * 9, False),
        (["", "phrase", "n"], [["0", "we stay here", "1.5"], ["1", "we leave", "2.5"]], True),
        (["", "", "phrase"], [["0", "1", "we stay here"]] * 9, False),
    ],
)
def test_the_first_row_is_a_header_where_it_names_what_is_below(
    first: list[str], body: list[list[str]], is_named: bool
) -> None:
    assert is_header(first, body) is is_named


def test_columns_that_are_asked_for_make_a_header(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Hello\tBonjour\nGoodbye\tAu revoir\n")
    assert read_table(path, ["Bonjour"], header=None) == {"Bonjour": ["Au revoir"]}
    assert read_table(path, ["1"], header=None) == {"1": ["Bonjour", "Au revoir"]}


@pytest.mark.parametrize(
    ("name", "module"), [("a.parquet", "pyarrow"), ("a.xlsx", "openpyxl"), ("a.csv.zst", "zstandard")]
)
def test_a_missing_extra_is_named(tmp_path: Path, name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / name).write_bytes(b"x")
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr("harken.errors.find_spec", lambda name: None)
    with pytest.raises(UserError, match=rf"{module}, which is not installed; pip install \"harken\[tables\]\""):
        read_table(tmp_path / name)


def test_zstandard_is_unpacked(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    (tmp_path / "a.csv.zst").write_bytes(zstandard.compress(b"text,label\ngood,1\n"))
    assert read_table(tmp_path / "a.csv.zst") == {"text": ["good"], "label": ["1"]}


def test_frames_of_pandas_like_objects() -> None:
    class Frame:
        columns = ("text", "label")

        def __getitem__(self, name: str) -> tuple[int, ...]:
            return {"text": (1, 2), "label": (3, 4)}[name]

    assert read_table(Frame(), ["label"]) == {"label": [3, 4]}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", "is empty"),
        ("a.csv", "text,label\nonly\n", "line 2 has 1 cell, but the header has 2"),
        ("a.csv", 'text,label\n"open,1\n', "fix its quotes"),
        ("a.csv", "txt,label\na,1\n", "did you mean 'txt'"),
        ("a.jsonl", "{\n", "line 1 is not valid JSON"),
        ("a.jsonl", "[1]\n", "line 1 is not a JSON object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', "object 2 has no key 'label'"),
        ("a.jsonl", "\n", "is empty"),
    ],
)
def test_bad_files_get_one_sentence(tmp_path: Path, name: str, content: str, said: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_table(path, ["text", "label"])


def test_bad_tables_get_one_sentence() -> None:
    with pytest.raises(UserError, match="different lengths"):
        read_table({"a": [1], "b": [1, 2]})
    with pytest.raises(UserError, match="a int is no table"):
        read_table(3)
    with pytest.raises(UserError, match="record 2 has no key 'a'"):
        read_table([{"a": 1}, {"b": 1}])
