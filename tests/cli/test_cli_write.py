"""`harken write`: strokes in the terminal, as JSON and as files; mistakes end with one sentence and code 2."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from harken.cli.app import app
from harken.recipe import load_recipe
from harken.tasks.handwriting.strokes import Strokes


class FakePenman:
    """Draws a line as long as the text, or of length 1."""

    recipe = load_recipe("penfont-handwriting")

    def write(self, texts: list[Any], bias: float | None, seed: int, progress: Any) -> list[Strokes]:
        lengths = [len(text or "x") for text in texts]
        points = [np.array([[0, 0, 0], [length, seed + (bias or 0), 1]]) for length in lengths]
        return [Strokes(one, text, finished=seed < 9) for one, text in zip(points, texts, strict=True)]


@pytest.fixture(autouse=True)
def penman(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.api.load", lambda folder: FakePenman())


def run(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["write", *arguments])
    assert result.exit_code == code, result.output
    return result


def test_the_terminal_shows_strokes() -> None:
    shown = run("m", "hi").stdout
    assert shown.endswith("hi\n") and any(0x2800 < ord(letter) < 0x2900 for letter in shown)


def test_json_has_a_line_for_each_drawing() -> None:
    lines = [json.loads(line) for line in run("m", "hi", "--count", "2", "--bias", "2", "--json").stdout.splitlines()]
    assert lines == [{"text": "hi", "strokes": [[[0.0, 0.0], [2.0, 3.0]]], "finished": True}] * 2


def test_files(tmp_path: Path) -> None:
    for ending in ("svg", "png", "html"):
        result = run("m", "--out", str(tmp_path / f"a.{ending}"))
        assert (tmp_path / f"a.{ending}").stat().st_size > 300 and "Wrote" in result.stderr
    assert "1 of 1 had no end after" in run("m", "a", "--seed", "9").stderr


def test_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "has the ending '.gif'; name it like line.html" in run("m", "a", "--out", "a.gif", code=2).stderr

    class Translator:
        recipe = load_recipe("phrasebook-rnn")

    monkeypatch.setattr("harken.api.load", lambda folder: Translator())
    assert "m was trained for the task 'translate'" in run("m", "a", code=2).stderr
