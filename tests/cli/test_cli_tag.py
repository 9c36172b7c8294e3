"""`harken tag`: three formats, and what is no tagger."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app

TINY = [
    "data.size=1500",
    "train.max_epochs=none",
    "train.max_steps=120",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tag") / "model"
    harken.train("phrasebook-tag", folder, overrides=TINY, progress=False)
    return folder


def run(*arguments: object, stdin: str = "", code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_three_formats(model: Path, tmp_path: Path) -> None:
    text = "the owl sleeps\n\nwe see the house\n"
    plain = run("tag", model, stdin=text).splitlines()
    assert plain[0] == "the/DET owl/NOUN sleeps/VERB" and plain[1] == "" and len(plain) == 3
    (tmp_path / "text.txt").write_text(text)
    columns = run("tag", model, tmp_path / "text.txt", "--conll")
    assert columns.startswith("the\tDET\nowl\tNOUN\nsleeps\tVERB\n\n\nwe\tPRON\n")
    first, empty, _ = (json.loads(line) for line in run("tag", model, "--json", stdin=text).splitlines())
    assert first["tags"] == ["DET", "NOUN", "VERB"] and len(first["probabilities"]) == 3
    assert all(0.3 < chance <= 1 for chance in first["probabilities"])
    assert empty == {"words": [], "tags": [], "probabilities": []}


def test_evaluate_and_picture(model: Path, tmp_path: Path) -> None:
    (tmp_path / "test.conll").write_text("the\tDET\nowl\tNOUN\n\nwe\tPRON\nsleep\tNOUN\n")
    scores = json.loads(run("evaluate", model, tmp_path / "test.conll", "--json", "--out", tmp_path / "pictures"))
    assert scores["sentences"] == 2 and scores["accuracy"] == 0.75 and scores["task"] == "tag"
    assert (tmp_path / "pictures" / "confusion.svg").read_text().startswith("<svg")
    assert "DET" in run("attention", model, "the owl sleeps", "--out", tmp_path / "tags.html")
    assert "the" in (tmp_path / "tags.html").read_text()


def test_mistakes(model: Path, tmp_path: Path) -> None:
    assert "--conll and --json were both given" in run("tag", model, "--conll", "--json", code=2)
    (tmp_path / "bad.conll").write_text("the DET\nowl\n")
    assert "bad.conll, line 2 has 1 column" in run("evaluate", model, tmp_path / "bad.conll", code=2)
