"""`harken new`, and data in place of a recipe."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harken.cli.app import app
from harken.recipe import load_recipe

ROWS = "".join(f"the film number {number} was {word}\t{word}\n" for number in range(40) for word in ("good", "bad"))
TINY = ["train.max_steps=1", "model={architecture='recurrent', embedding=4, width=4}", "train.precision=float32"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "films.tsv").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "films.tsv"


def run(*arguments: Any, answers: str = "", code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=answers)
    assert result.exit_code == code, result.output
    return result


def test_three_questions_make_a_recipe(data: Path) -> None:
    shown = run("new", answers=f"{data}\n\n3\n").stderr
    assert "texts in 0, 2 labels in 1" in shown and "[classify]" in shown
    recipe = load_recipe("films.toml")
    assert recipe.task == "classify" and recipe.train.max_minutes == 3 and recipe.data.train == str(data)


def test_options_answer_the_questions(data: Path) -> None:
    run("new", data, "--task", "classify", "--minutes", "1.5", "--out", "sub/my.toml")
    assert load_recipe("sub/my.toml").train.max_minutes == 1.5
    again = run("new", data, "--task", "classify", "--minutes", "2", "--out", "sub/my.toml", code=2)
    assert "sub/my.toml exists and differs" in again.stderr


def test_without_answers_the_options_are_named(data: Path) -> None:
    assert "give DATA, --task and --minutes" in run("new", code=2).stderr
    assert "does not exist" in run("new", "none.tsv", code=2).stderr
    assert "there is no task 'clasify'" in run("new", data, answers="clasify\n", code=2).stderr


def test_data_in_place_of_a_recipe_is_trained_on(data: Path) -> None:
    overrides = [part for override in TINY for part in ("--set", override)]
    shown = run("train", "films.tsv", "--out", "runs/films", *overrides).stderr
    assert "films.tsv: texts in 0, 2 labels in 1" in shown and "The recipe is in runs/films.toml" in shown
    assert load_recipe("runs/films.toml").task == "classify"
    assert Path("runs/films/card.md").is_file()
    run("train", "films.tsv", "--out", "runs/films", "--resume", *overrides)
    wrong = run("train", "runs/films.toml", "--out", "runs/other", "--text-column", "0", code=2)
    assert "--text-column is for data in place of a recipe" in wrong.stderr


def test_python_trains_on_data_in_place_of_a_recipe(data: Path, tmp_path: Path) -> None:
    import harken

    out = tmp_path / "python"
    settings = ["train.max_steps=2", "train.max_minutes=none"]
    model = harken.train(data, out, overrides=settings, progress=False)
    assert model.recipe.task == "classify"
    assert (tmp_path / "python.toml").read_text(encoding="utf-8").startswith("# classify: ")
    again = harken.train(data, out, overrides=settings, resume=True, progress=False)
    assert again.classes == model.classes


def test_data_can_be_checked(data: Path) -> None:
    found = run("check", "films.tsv", "--no-measure", "--set", "train.max_steps=60").stdout
    assert "73 training examples, 7 for validation" in found and "2: " in found


def test_recordings_with_texts_beside_them_get_a_table(data: Path) -> None:
    folder = data.parent / "spoken"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.wav").write_bytes(b"")
        (folder / f"{name}.txt").write_text(f"the {name}\n")
    run("new", folder, "--task", "transcribe", "--minutes", "1")
    assert load_recipe("spoken.toml").data.train == str(data.parent / "spoken.jsonl")
    first = json.loads((data.parent / "spoken.jsonl").read_text().splitlines()[0])
    assert first == {"audio": str(folder / "a.wav"), "text": "the a"}
