"""Labelled texts and signals out of every kind of file, and what bad ones are answered with."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harken.data.text.examples_config import ExamplesConfig
from harken.data.text.labelled import phrases_of
from harken.data.text.labelled_splits import read_examples, read_splits
from harken.errors import UserError


def read(folder: Path, name: str, content: str | bytes, **keys: Any) -> Any:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return read_examples(ExamplesConfig(dir=str(folder), train=name, **keys))


def test_texts_in_every_form(tmp_path: Path) -> None:
    wanted = (["what a film", "so dull"], ["good", "bad"])
    forms: list[tuple[str, str | bytes, dict[str, Any]]] = [
        ("a.csv", 'text,label\n"what a film",good\nso dull,bad\n', {}),
        (
            "b.tsv.gz",
            gzip.compress(b"good\twhat a film\nbad\tso dull\n"),
            {"header": False, "text_column": "1", "label_column": "0"},
        ),
        ("c.jsonl", '{"text": "what a film", "label": "good"}\n{"text": "so dull", "label": "bad"}\n', {}),
        ("d.txt", "__label__good what a film\n\n__label__bad so dull\n", {}),
        ("e.txt", "good\twhat a film\nbad\tso dull\n", {}),
        ("f.csv", "title,rest,label\nwhat,a film,g:1\nso,dull,b:2\n", {
            "text_column": ["title", "rest"], "label_until": ":", "names": {"g": "good", "b": "bad"}}),
        ("g.tsv", 'text\tlabel\nwhat a film\tgood\nso dull\tbad\n', {"quotes": False}),
    ]  # fmt: skip
    for name, content, keys in forms:
        found = read(tmp_path, name, content, **keys)
        assert (found.values, found.labels) == wanted, name


def test_a_folder_with_a_file_for_each_class(tmp_path: Path) -> None:
    (tmp_path / "names").mkdir()
    (tmp_path / "names" / "Greek.txt").write_text("Adamou\nAlexis\n")
    (tmp_path / "names" / "Irish.txt").write_text("Adam\n")
    found = read_examples(ExamplesConfig(dir=str(tmp_path), train="names"))
    assert found.values == ["Adamou", "Alexis", "Adam"] and found.labels == ["Greek", "Greek", "Irish"]


def test_encoding_case_tags_and_quotes(tmp_path: Path) -> None:
    found = read(tmp_path, "a.txt", "A Caf\xe9<br />ist so\n".encode("latin-1"), encoding="latin-1",
                 lowercase=True, drop_tags=True, format="prefix")  # fmt: skip
    assert found.values == ["café ist so"]
    found = read(tmp_path, "b.tsv", '1\t"so" it said\n', header=False, text_column="1", label_column="0", quotes=False)
    assert found.values == ['"so" it said']


def test_trees_are_sentences_and_their_phrases(tmp_path: Path) -> None:
    line = "(3 (2 (2 -LRB-) (2 It)) (4 (2 's) (4 a\\/b)))\n(0 bad)\n"
    found = read(tmp_path, "t.txt", line, format="trees", names={"3": "+", "4": "+", "0": "-"})
    assert list(zip(found.values, found.labels, found.parts, strict=True)) == [
        ("( It 's a/b", "+", False), ("'s a/b", "+", True), ("a/b", "+", True), ("bad", "-", False),
    ]  # fmt: skip
    assert found.groups == ["( It 's a/b"] * 3 + ["bad"]  # phrases belong to their sentence
    for bad in ("(3 (2 a)", "(3 a))", "words"):
        with pytest.raises(ValueError):
            phrases_of(bad)


def test_signals_in_every_form(tmp_path: Path) -> None:
    one, other = [[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]
    np.savez(tmp_path / "a.npz", values=np.array([one, [*other, [0, 0]]]), labels=["x", "y"], lengths=[2, 1])
    forms: dict[str, tuple[str | None, dict[str, Any]]] = {
        "a.npz": (None, {}),
        "b.ts": ("#c\n@dimensions 2\n@data\n1,3:2,4:x\n5:6:y\n", {}),
        "c.tra": (" 1, 2, 3, 4, x\n 5, 6, y\n", {"frame": 2}),
        "d.csv": ("b,a,who,label\n2,1,p,x\n4,3,p,x\n6,5,q,y\n", {"channels": ["a", "b"], "recording": "who"}),
    }
    for name, (content, keys) in forms.items():
        if content:
            (tmp_path / name).write_text(content)
        found = read_examples(ExamplesConfig(kind="signal", dir=str(tmp_path), train=name, **keys))
        assert [value.tolist() for value in found.values] == [one, other], name
        assert found.labels == ["x", "y"], name


def test_windows_of_people_never_stand_on_both_sides(tmp_path: Path) -> None:
    for person in range(6):
        (tmp_path / f"s{person}").mkdir()
        rows = "".join(f"{person},{time},{'sit' if time < 6 else 'go'}\n" for time in range(12))
        (tmp_path / f"s{person}" / "a.csv").write_text("x,t,label\n" + rows)
    data = ExamplesConfig(kind="signal", dir=str(tmp_path), train="s[0-4]/*.csv", test="s5/*.csv", channels=["x"],
                          group="folder", window=4, step=2, valid_size=5)  # fmt: skip
    splits = read_splits(data)
    people = [{float(value[0, 0]) for value in part.values} for part in (splits.train, splits.valid)]
    assert len(people[0]) == 4 and len(people[1]) == 1 and not people[0] & people[1]
    assert {float(value[0, 0]) for value in splits.tests["test"].values} == {5.0}
    assert splits.tests["test"].labels == ["sit", "sit", "sit", "go", "go"]  # the third is half and half: first seen
    skipping = read_splits(data.model_copy(update={"mixed": "skip"}))
    assert skipping.tests["test"].labels == ["sit", "sit", "go", "go"]


def test_splits_of_their_own_format_and_texts_that_leak(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\n" + "".join(f"t {n},{n % 2}\n" for n in range(20)))
    (tmp_path / "test.txt").write_text("no T 3\nyes new\n")
    data = ExamplesConfig(dir=str(tmp_path), train="train.csv", valid_size=4, names={"0": "no", "1": "yes"},
                          test={"files": "test.txt", "names": {"no": "no", "yes": "yes"}})  # fmt: skip
    splits = read_splits(data)
    assert splits.tests["test"].values == ["T 3", "new"] and splits.tests["test"].labels == ["no", "yes"]
    assert len(splits.valid) == 4 and (len(splits.train), splits.skipped) == (
        15,
        {"also in the validation or test data": 1},
    )
    assert "t 3" not in splits.train.values


MISTAKES: list[tuple[str, str, dict[str, Any], str]] = [
    ("a.csv", "text,lable\na,b\n", {}, "has no column 'label'; did you mean 'lable'?"),
    ("a.csv", "text,label\na\n", {}, "a.csv, line 2 has 1 cell"),
    ("a.txt", "good\n", {}, "a.txt, line 1 has the one word 'good'"),
    ("a.txt", "", {}, "a.txt holds no example"),
    ("a.txt", "good film\n", {"names": {"0": "bad"}}, "data.names has 0, but the labels are good"),
    ("a.txt", "good film\n", {"encoding": "utf-9"}, 'data.encoding is "utf-9"'),
    ("a.txt", "(1 (2 a)\n", {"format": "trees"}, "a.txt, line 1 is no bracketed tree (a bracket is not closed)"),
    ("a.ts", "1,2:a\n", {"kind": "signal"}, "a.ts has no line @data"),
    ("a.ts", "@data\n1,2:3:a\n", {"kind": "signal"}, "line 2 is no example of a .ts file (its channels have different"),
    ("a.ts", "@data\n1,?:a\n", {"kind": "signal"}, "line 2 is no example of a .ts file"),
    ("a.dat", "1 2 3 a\n", {"kind": "signal", "frame": 2}, "line 1 is no row of numbers and a label (3 numbers"),
    ("a.csv", "x,label\n1,a\nq,a\n", {"kind": "signal"}, "row 2 has 'q' in column 'x', which is no number"),
    ("a.csv", "x,label\n1,a\nnan,a\n", {"kind": "signal"}, "row 2 has no finite number in column 'x'"),
    ("a.csv", "x,label\n1,a\n", {"kind": "signal", "window": 9}, "holds no example; check data.window"),
    ("a.npz", "junk", {"kind": "signal"}, "a.npz is no plain NumPy file"),
]


@pytest.mark.parametrize(("name", "content", "keys", "said"), MISTAKES, ids=[mistake[3][:40] for mistake in MISTAKES])
def test_mistakes_are_said_in_one_sentence(
    tmp_path: Path, name: str, content: str, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(tmp_path, name, content, **keys)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("text,label\na,b\n")
    for keys, said in (
        ({"train": "trian.csv"}, "did you mean train.csv?"),
        ({"train": "*.tsv"}, "no file fits"),
        ({"train": "x", "dir": str(tmp_path / "no")}, "which is no folder"),
        ({}, "names no data"),
    ):
        with pytest.raises(UserError, match=said):
            read_examples(ExamplesConfig(**{"dir": str(tmp_path), **keys}))
    with pytest.raises(UserError, match="have 1 class"):
        (tmp_path / "one.csv").write_text("text,label\na,b\nc,b\nd,b\n")
        read_splits(ExamplesConfig(dir=str(tmp_path), train="one.csv", valid_size=1))


def test_words_that_do_not_go_together() -> None:
    for keys, said in (
        ({"corpus": "opinions", "train": "a"}, "keep one of them"),
        ({"corpus": "gestures"}, 'has data.kind = "signal"'),
        ({"train": "a", "format": "ts"}, "does not hold examples"),
    ):
        with pytest.raises(ValueError, match=said):
            ExamplesConfig(**keys)


def test_capitals_become_marks_and_the_split_stays(tmp_path: Path) -> None:
    lines = "".join(f"{'AB'[n % 2]}:{n % 4} Who is Number {n} of NASA\n" for n in range(20))
    keys: dict[str, Any] = {"label_until": ":", "format": "prefix"}
    found = read(tmp_path, "a.txt", lines, lowercase="mark", **keys)
    assert found.values[3] == "who is ⇧ number 3 of ⇪ nasa"
    assert found.labels[:4] == ["A", "B", "A", "B"] and found.fine[:4] == ["A:0", "B:1", "A:2", "B:3"]
    data = {"dir": str(tmp_path), "train": "a.txt", "valid_size": 5, "test_size": 5, **keys}
    marked, plain = (read_splits(ExamplesConfig(**data, lowercase=way)) for way in ("mark", False))
    for one, other in ((marked.train, plain.train), (marked.valid, plain.valid)):
        assert [text.split()[4] for text in one.values] == [text.split()[3] for text in other.values]
        assert one.fine == other.fine and len(one.fine or []) == len(one)


def test_names_keep_what_the_files_call_a_label(tmp_path: Path) -> None:
    found = read(tmp_path, "a.txt", "0 bad\n2 so so\n4 good\n", names={"0": "no", "4": "yes"})
    assert found.labels == ["no", "yes"] and found.fine == ["0", "4"]
