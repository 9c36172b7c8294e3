"""Drawings: the font and its hands are deterministic, splits share no text, files are read or refused with the line."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from harken.data.strokes.config import StrokeConfig
from harken.data.strokes.corpus import read_strokes_corpus
from harken.data.strokes.drawing import Drawing
from harken.data.strokes.files import read_npz, read_strokes
from harken.data.strokes.rows import StrokeRows
from harken.errors import UserError


def test_batches() -> None:
    drawings = [Drawing.of([[(2, 0), (2, 4)], [(6, 4)]]), Drawing.of([[(8, 0)]])]
    batch = StrokeRows(drawings).batch([1, 0], deviation=2.0)
    assert batch.lengths.tolist() == [1, 3]
    assert batch.movement.tolist() == [[[4, 0], [0, 0], [0, 0]], [[1, 0], [0, 2], [2, 0]]]
    assert batch.marks.tolist() == [[[1, 1], [0, 0], [0, 0]], [[0, 0], [1, 0], [1, 1]]]
    assert batch.before.tolist() == [[[0, 0, 0]] * 3, [[0, 0, 0], [1, 0, 0], [0, 2, 1]]]


def write_npz(path: Path, **changed: np.ndarray) -> Path:
    arrays = {}
    for name in ("train", "valid", "test"):
        arrays[f"{name}_points"] = np.array([[1, 2, 0], [3, 4, 1], [5, 6, 1]], np.int16)
        arrays[f"{name}_offsets"] = np.array([0, 2, 3], np.int32)
    np.savez(path, **{**arrays, **changed})
    return path


def test_npz(tmp_path: Path) -> None:
    splits = read_npz(write_npz(tmp_path / "a.npz"))
    assert [drawing.points.tolist() for drawing in splits["valid"]] == [[[1, 2, 0], [3, 4, 1]], [[5, 6, 1]]]
    with pytest.raises(UserError, match="test_offsets do not cut test_points"):
        read_npz(write_npz(tmp_path / "b.npz", test_offsets=np.array([0, 2, 9])))
    (tmp_path / "c.npz").write_text("no zip")
    with pytest.raises(UserError, match=r"c\.npz is no plain NumPy file"):
        read_npz(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", points=np.zeros(1))
    with pytest.raises(UserError, match=r"d\.npz has no train_points and train_offsets, but points"):
        read_npz(tmp_path / "d.npz")


def test_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"strokes": [[[0, 1], [2, 3]]], "text": "l"}) + "\n\n" + '{"strokes": [[[5, 5]]]}\n')
    first, second = read_strokes(path)
    assert first.text == "l" and first.points.tolist() == [[0, 1, 0], [2, 2, 1]]
    assert second.text is None
    for line, complaint in (
        ("{", r"line 4 is not"),
        ('{"strokes": [[1, 2]]}', "line 4 has a stroke that is no list"),
        ('{"strokes": []}', "line 4 has a stroke that is no list"),
        ('{"strokes": [[[1, 2]]], "text": 3}', "line 4 has a text that is no string"),
        ('{"text": "a"}', "line 4 is not"),
    ):
        broken = tmp_path / "b.jsonl"
        broken.write_text(path.read_text() + line + "\n")
        with pytest.raises(UserError, match=complaint):
            read_strokes(broken)


def test_pendigits(tmp_path: Path) -> None:
    path = tmp_path / "x.tra.gz"
    line = "  0,100, 62, 99,100, 92, 66, 61, 43, 25, 21,  0, 11, 34, 73, 37, 7\n"
    path.write_bytes(gzip.compress(line.encode()))
    (digit,) = read_strokes(path)
    assert digit.text == "7" and len(digit) == 8
    assert digit.strokes()[0][:2].tolist() == [[0, 0], [62, 1]]
    (tmp_path / "y.tes").write_text(line + "1,2,3\n")
    with pytest.raises(UserError, match=r"y\.tes, line 2 is not 16 whole numbers and a digit"):
        read_strokes(tmp_path / "y.tes")
    (tmp_path / "z.txt").write_text(line)
    with pytest.raises(UserError, match="no file of strokes by its ending"):
        read_strokes(tmp_path / "z.txt")


def test_a_corpus_of_files(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"strokes": [[[0, 0]] * (number + 1)], "text": "a"} for number in range(80)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_strokes_corpus(StrokeConfig(train=str(path), max_points=60))
    assert corpus.name == "mine" and corpus.has_texts
    assert sum(corpus.skipped.values()) == 20 and len(corpus.splits["train"]) + len(corpus.splits["valid"]) == 60
    assert corpus.splits["test"] == []
    with pytest.raises(UserError, match=r"no drawing of a is left for train; raise data\.max_points 1"):
        write_npz(tmp_path / "a.npz", train_offsets=np.array([0, 3]))
        read_strokes_corpus(StrokeConfig(file=str(tmp_path / "a.npz"), max_points=1))


@pytest.mark.shared
def test_real_strokes_are_read(shared_data: Path) -> None:
    splits = read_npz(shared_data / "online-strokes" / "omniglot.strokes.npz")
    assert {name: len(drawings) for name, drawings in splits.items()} == {"train": 30000, "valid": 1000, "test": 1000}
    assert sum(len(drawing) for drawing in splits["train"]) == 933_430
    digits = read_strokes(shared_data / "pendigits" / "pendigits.tes.gz")
    assert len(digits) == 3498 and Counter(digit.text for digit in digits)["0"] == 363
