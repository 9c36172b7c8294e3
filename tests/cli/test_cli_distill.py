"""`harken distill`: a student from the command line, what it refuses, and how it says to continue."""

import shutil
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


def test_an_adopted_teacher_a_size_and_the_table(teacher: Path, tmp_path: Path):
    adopted, text = tmp_path / "adopted", tmp_path / "text.txt"
    shutil.copytree(teacher, adopted)
    recipe = harken.load(teacher).recipe
    data = recipe.data.model_copy(update={"source": None, "valid_size": None, "test_size": 0})
    (adopted / "recipe.toml").write_text(recipe.model_copy(update={"data": data}).to_toml(), encoding="utf-8")
    text.write_text("".join(f"a{n} b{n % 7}\n" for n in range(40)), encoding="utf-8")
    command = ["distil", str(adopted), "--out", str(tmp_path / "student"), "--size", "tiny", *SMALL]
    command += ["--set", "model.heads=2", "--set", "train.workers=1", "--set", "tokenizer.kind=word"]
    command += ["--set", "train.validate_sentences=2", "--beam", "2", "--mbr", "chrf"]
    refused = RUNNER.invoke(app, command)
    assert refused.exit_code == 2
    assert "name a file of sentences to translate" in " ".join(refused.output.split())
    result = RUNNER.invoke(app, [*command, str(text), "--resume"])
    assert result.exit_code == 0, result.output
    rows = [line.split("\t") for line in result.stdout.splitlines() if "\t" in line]
    assert [row[:2] for row in rows[1:]] == [["teacher", "float32"], ["student", "float32"], ["student", "int8"]]
    assert float(rows[3][4]) <= float(rows[2][4])
    student = harken.load(tmp_path / "student").recipe
    assert (student.model.decoder_mixer, student.model.encoder_depth, student.search.shortlist) == ("ssru", 6, 100)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--recipe", "phrasebook-studnet"], "did you mean phrasebook-student?"),
        (["--recipe", "phrasebook-tag"], "give one of the task 'translate'"),
        (["--weights", "a,b"], "is no list of numbers"),
        (["--precision", "int4"], "search.precision"),
        (["--size", "huge"], "choose from tiny, small, base"),
        (["--size", "tiny", "--recipe", "phrasebook-student"], "keep one of them"),
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


def test_text_is_translated_back_with_a_tag_and_a_stopped_job_continues(teacher: Path, tmp_path: Path):
    text, out = tmp_path / "text.txt", tmp_path / "synthetic.tsv"
    sentences = [f"a{n} b{n % 7}" for n in range(20)]
    text.write_text("\n".join([*sentences, "", "a1 b2"]) + "\n", encoding="utf-8")
    command = ["backtranslate", str(teacher), str(text), "--tag", "<BT>", "--beam", "2"]
    result = RUNNER.invoke(app, [*command, "--out", str(out)])
    assert result.exit_code == 0, result.output
    model = harken.load(teacher)
    best = [each.text for each in model.translate([*sentences, "a1 b2"], beam=2, attention=False)]
    expected = [f"<BT> {text}\t{line}" if text else f"\t{line}" for text, line in zip(best, sentences, strict=False)]
    rows = out.read_text(encoding="utf-8").splitlines()
    assert rows[:20] == expected
    assert rows[20] == "\t"
    assert len(rows) == 22

    whole, sidecar = out.read_bytes(), tmp_path / ".synthetic.tsv.resume.json"
    out.write_bytes(whole[: len(whole) // 2])
    sidecar.write_text(sidecar.read_text().replace('"complete": true', '"complete": false'))
    again = RUNNER.invoke(app, [*command, "--out", str(out)])
    assert again.exit_code == 2
    assert f"continue it with --resume {out.name}" in again.output.replace("\n", "").replace(str(tmp_path) + "/", "")
    result = RUNNER.invoke(app, [*command, "--resume", str(out)])
    assert result.exit_code == 0, result.output
    assert out.read_bytes() == whole
