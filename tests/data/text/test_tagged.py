"""Tagged sentences in every format, and what broken files get."""

import gzip
import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from harken.data.series.framed import read_frames
from harken.data.text.tagged import Tagged, as_tagged, read_tagged
from harken.errors import UserError

CONLLU = """# text = I don't fly
1\tI\tI\tPRON\tPRP\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_
3.1\tsilent\tsilent\tVERB\tVB\t_\t_\t_\t_\t_
4\tfly\tfly\tVERB\tVB\t_\t0\troot\t_\t_

# text = Go
1\tGo\tgo\tVERB\tVB\t_\t0\troot\t_\t_
"""
COLUMNS = "I\tO\nlove\tO\nNew\tB-location\nYork\tI-location\n\t\n\nRain\tO\n"


def complaint(path: Path, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        read_tagged(path, **options)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_conllu_skips_joined_and_silent_words(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.xz"
    path.write_bytes(lzma.compress(CONLLU.encode()))
    assert read_tagged(path) == [
        Tagged(("I", "do", "n't", "fly"), ("PRON", "AUX", "PART", "VERB")),
        Tagged(("Go",), ("VERB",)),
    ]
    assert read_tagged(path, tag="xpos")[0].tags == ("PRP", "VBP", "RB", "VB")
    assert read_tagged(path, word="lemma")[0].words == ("I", "do", "not", "fly")
    assert "did you mean 'upos'?" in complaint(path, tag="ups")


def test_columns_with_tabs_or_spaces(tmp_path: Path) -> None:
    path = tmp_path / "a.conll.gz"
    path.write_bytes(gzip.compress(COLUMNS.encode()))
    wanted = [Tagged(("I", "love", "New", "York"), ("O", "O", "B-location", "I-location")), Tagged(("Rain",), ("O",))]
    assert read_tagged(path) == wanted
    spaced = tmp_path / "b.txt"
    spaced.write_text("EU NNP B-ORG\nrejects VBZ O\n")
    assert read_tagged(spaced) == [Tagged(("EU", "rejects"), ("B-ORG", "O"))]
    assert read_tagged(spaced, tag=1)[0].tags == ("NNP", "VBZ")


def test_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"tokens": ["a", "b"], "tags": ["X", "Y"]}) + "\n" + '{"tokens": [], "tags": []}\n')
    assert read_tagged(path) == [Tagged(("a", "b"), ("X", "Y"))]
    assert "did you mean 'tokens'?" in complaint(path, word="token")
    path.write_text('{"tokens": ["a"], "tags": ["X", "Y"]}\n')
    assert "sentence 1 has 1 words but 2 tags" in complaint(path)


def test_broken_lines_are_named_with_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("I\tO\nlove\n")
    assert complaint(path).startswith(f"{path}, line 2 has 1 column where 2 are wanted ('love'); write a word, a tab")
    path.write_text("I\tO\n\tO\n")
    assert f"{path}, line 2 has an empty word" in complaint(path)
    path.write_text("I\t\n")
    assert f"{path}, line 1 has an empty tag" in complaint(path)
    path.write_text("\n")
    assert "holds no sentence" in complaint(path)
    assert "give a number from 0" in complaint(path, tag="upos")
    treebank = tmp_path / "a.conllu"
    treebank.write_text("# a\n1\tI\tI\n")
    assert f"{treebank}, line 2 has 3 columns where 4 are wanted" in complaint(treebank)
    assert "does not exist" in complaint(tmp_path / "none.conll")


def test_lists_of_words() -> None:
    assert as_tagged([["a"], []], [["X"], []], "mine") == [Tagged(("a",), ("X",))]
    with pytest.raises(UserError, match="mine, sentence 1 is no list of words"):
        as_tagged(["a b"], [["X", "Y"]], "mine")
    with pytest.raises(UserError, match="2 sentences but tags for 1"):
        as_tagged([["a"], ["b"]], [["X"]], "mine")


def test_frames(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    frames = np.arange(10.0).reshape(5, 2)
    np.savez(path, frames=frames, labels=[0, 0, 1, 1, 1], lengths=[2, 3])
    first, second = read_frames(path)
    assert first.tags == ("0", "0") and second.frames.tolist() == frames[2:].tolist()
    for arrays, said in (
        ({"frames": frames}, "has no array 'labels'; it has frames"),
        ({"frames": frames, "labels": [1, 2]}, r"frames of shape \(5, 2\) and labels of shape \(2,\)"),
        ({"frames": frames, "labels": [1] * 5, "lengths": [2, 2]}, "has 5 frames, but its lengths sum up to 4"),
        ({"frames": frames * np.nan, "labels": [1] * 5}, "no numbers"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(UserError, match=said):
            read_frames(path)
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="is no plain NumPy file"):
        read_frames(path)
