"""`harken embed context`: one word in several sentences."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app

SMALL = [
    "data.size=60", "model={width=6, layers=2, character_embedding=5, character_width=8}", "train.max_epochs=none",
    "train.max_minutes=none", "train.max_steps=3", "train.warmup_steps=1", "train.schedule=constant",
    "train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32",
]  # fmt: skip


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["embed", "context", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("embed") / "elmo"
    harken.train("phrasebook-elmo", place, overrides=SMALL, progress=False)
    return place


def test_cosines_and_neighbours_as_json(folder: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\na cat sleeps\nthe cat sees a light\n")
    words = ("the cat sees a light", "a light suitcase", "--word", "light", "--among", text, "-n", 2, "--json")
    code, out, said = run(folder, *words)
    assert code == 0, said
    found = json.loads(out)
    assert found["word"] == "light" and [one["place"] for one in found["contexts"]] == [4, 1]
    first, second = found["contexts"]
    assert first["cosines"][0] == pytest.approx(1.0, abs=1e-5) and first["cosines"][1] == second["cosines"][0] < 1
    assert first["neighbors"][0]["word"] == "light"  # the same sentence is in the file
    assert first["neighbors"][0]["cosine"] == pytest.approx(1.0, abs=1e-5)
    code, out, _ = run(folder, *words[:4], "--layer", 0, "-n", 0, "--json")
    assert json.loads(out)["contexts"][0]["cosines"] == pytest.approx([1.0, 1.0], abs=1e-5)  # the word alone


def test_a_table_and_the_models_own_text(folder: Path) -> None:
    code, out, said = run(folder, "the cat sees a light", "a light suitcase", "--word", "light", "-n", 3)
    assert code == 0, said
    lines = out.splitlines()
    assert lines[0].startswith("1 the cat sees a light\t1.0000\t") and len(lines) == 2 + 2 * (2 + 3)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["the cat", "--word", "dog"], '"dog" is no word of "the cat"'),
        (["the cat", "--word", "cat", "--layer", 9], "--layer is 9, but the model has layers 0 to 2"),
        (["the cat", "--word", "cat", "--among", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_mistakes_get_one_sentence(folder: Path, words: list[object], sentence: str) -> None:
    code, out, said = run(folder, *words)
    assert code == 2 and not out and sentence in said and len(said.strip().splitlines()) == 1
