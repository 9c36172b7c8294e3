"""Tables of named columns, from files and from memory."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

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
