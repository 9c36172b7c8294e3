"""`harken distill`: a student from the command line, what it refuses, and how it says to continue."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app

RUNNER = CliRunner()
SMALL = ["--set", "model.width=16", "--set", "model.feedforward=16", "--set", "train.max_steps=2"]


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    place = tmp_path_factory.mktemp("teacher") / "run"
    pairs = [f"a{n} b{n % 7}\tx{n} y{n % 7}" for n in range(40)]
    (place.parent / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    recipe = {
        "task": "translate",
        "data": {"source": str(place.parent / "pairs.tsv"), "valid_size": 6, "test_size": 4},
        "tokenizer": {"kind": "word", "joint": False},
        "model": {"architecture": "transformer", "layers": 1, "width": 8, "heads": 2, "feedforward": 8, "tied": "none"},
        "train": {"max_steps": 1, "batch_tokens": 128, "workers": 1, "validate_sentences": 2},
        "search": {"max_length_factor": 0.3, "max_length_extra": 1},
    }
    harken.train(recipe, place, progress=False)
    return place


def test_a_student_from_a_recipe_that_ships(teacher: Path, tmp_path: Path):
    out = tmp_path / "student"
    more = ["--set", "train.workers=1", "--set", "train.validate_sentences=2", "--beam", "1", "--quiet"]
    found = RUNNER.invoke(
        app, ["distill", str(teacher), "--out", str(out), "--recipe", "phrasebook-student", *SMALL, *more]
    )
    assert found.exit_code == 0, found.output
    assert len((tmp_path / "student.pairs" / "train.target").read_text(encoding="utf-8").splitlines()) == 30
    student = harken.load(out)
    assert student.recipe.model.decoder_mixer == "ssru"
    assert student.recipe.data.corpus is None
    again = RUNNER.invoke(app, ["distill", str(teacher), "--out", str(out)])
    assert again.exit_code == 2
    assert "is not empty; train into a new folder, continue the run in it with --resume" in " ".join(
        again.output.split()
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--recipe", "phrasebook-studnet"], "did you mean phrasebook-student?"),
        (["--recipe", "phrasebook-tag"], "give one of the task 'translate'"),
        (["--weights", "a,b"], "is no list of numbers"),
        (["--precision", "int4"], "search.precision"),
    ],
)
def test_what_does_not_fit_is_one_sentence(teacher: Path, tmp_path: Path, more: list[str], message: str):
    found = RUNNER.invoke(app, ["distill", str(teacher), "--out", str(tmp_path / "student"), *more])
    assert found.exit_code == 2
    assert message in " ".join(found.output.split())
    assert not (tmp_path / "student").exists()


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path):
    found = RUNNER.invoke(app, ["distill", str(tmp_path), "--out", str(tmp_path / "student")])
    assert found.exit_code == 2
    assert "is no finished model folder" in " ".join(found.output.split())
