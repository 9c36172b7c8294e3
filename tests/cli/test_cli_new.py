"""`harken new`, and data in place of a recipe."""

import json
import os
import select
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
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
    out = tmp_path / "python"
    settings = ["train.max_steps=2", "train.max_minutes=none"]
    model = harken.train(data, out, overrides=settings, progress=False)
    assert model.recipe.task == "classify"
    assert (tmp_path / "python.toml").read_text(encoding="utf-8").startswith("# classify: ")
    again = harken.train(data, out, overrides=settings, resume=True, progress=False)
    assert again.classes == model.classes


def test_data_can_be_checked(data: Path) -> None:
    found = run("check", "films.tsv", "--no-measure", "--set", "train.max_steps=60").stdout
    assert "72 training examples, 8 for validation" in found and "2: " in found


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


CTRL_C = "Ctrl-C"
MIXED = "".join(f"the film number {n} was {w}\t{w}\t{'ab'[n % 2]}\n" for n in range(40) for w in ("good", "bad"))


def test_the_saved_recipe_trains_the_same_run(data: Path) -> None:
    overrides = [part for override in [*TINY, "train.max_steps=3", "data.valid_size=8"] for part in ("--set", override)]
    run("train", "films.tsv", "--out", "runs/first", "--target-column", "1", *overrides)
    run("train", "runs/first.toml", "--out", "runs/second")
    weights = [Path(f"runs/{name}/model.safetensors").read_bytes() for name in ("first", "second")]
    assert weights[0] == weights[1]


def test_paths_of_overrides_are_absolute_in_the_saved_recipe(data: Path) -> None:
    Path("held").mkdir()
    Path("held/dev.tsv").write_text(ROWS.replace("film", "play"))
    run("train", "films.tsv", "--out", "runs/films", *("--set", "data.valid=held/dev.tsv", "--set", TINY[0]), *SMALL)
    saved = tomllib.loads(Path("runs/films.toml").read_text())
    assert saved["data"]["valid"] == str(data.parent / "held/dev.tsv")
    run("train", "films.tsv", "--out", "runs/films", "--resume")


SMALL = [part for override in TINY[1:] for part in ("--set", override)]


def test_a_wrong_override_saves_no_recipe(data: Path) -> None:
    wrong = run("train", "films.tsv", "--out", "runs/films", "--set", "train.max_setps=1", code=2)
    assert "train.max_setps" in wrong.stderr and "did you mean train.max_steps?" in wrong.stderr
    assert not Path("runs/films.toml").exists()


def test_a_key_of_the_model_needs_no_architecture(data: Path) -> None:
    shown = run("check", "films.tsv", "--no-measure", "--set", "model.width=24", "--set", "train.max_steps=5").stdout
    assert "is valid" in shown


def test_elsewhere_the_error_is_a_complete_command(data: Path) -> None:
    Path("two words.tsv").write_text(MIXED)
    error = run("train", "two words.tsv", "--out", "my runs/a", "--set", "train.max_steps=1", code=2).stderr
    assert error.startswith("error: two words.tsv has several columns that may be the label (1, 2); choose one, ")
    command = shlex.split(error.partition("for example: ")[2])
    given = ["train", "two words.tsv", "--target-column", "1", "--out", "my runs/a", "--set", "train.max_steps=1"]
    assert command == ["harken", *given]
    run(*command[1:], *SMALL)
    assert load_recipe("my runs/a.toml").data.label_column == "1"


def in_terminal(*arguments: str, answers: list[str]) -> tuple[str, int]:
    """Run a command with a terminal; each answer is typed when a question was asked. Returns its output and code."""
    terminal, inside = os.openpty()
    source = str(Path(harken.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "harken", *arguments],
        stdin=inside, stdout=inside, stderr=inside, start_new_session=True, env={**os.environ, "PYTHONPATH": source},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # shells ignore it in background jobs
    )  # fmt: skip
    os.close(inside)
    output, answered, deadline = "", 0, time.monotonic() + 180
    try:
        while time.monotonic() < deadline:
            if not select.select([terminal], [], [], 1)[0]:
                # The first one may come before the command waits for input; one while Python exits would kill it.
                if CTRL_C in answers[:answered] and "stopped" not in output:
                    process.send_signal(signal.SIGINT)
                continue
            try:
                output += os.read(terminal, 4096).decode(errors="replace")
            except OSError:  # the process has left
                break
            if answered < len(answers) and output.count("[1]") > answered:
                if answers[answered] == CTRL_C:
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(terminal, answers[answered].encode())
                answered += 1
        return output, process.wait(60)
    finally:
        os.close(terminal)
        process.kill()
        process.wait()


def test_a_terminal_asks_for_the_column(data: Path) -> None:
    data.write_text(MIXED)
    check = ("check", "films.tsv", "--no-measure", "--set", "train.max_steps=60")
    output, code = in_terminal(*check, answers=["3\n", "2\n"])
    assert code == 0, output
    assert "several columns that may be the label" in output and "  2  2" in output
    assert "'3' is none of them; give a number from 1 to 2" in output and "2 labels in 2" in output
    output, code = in_terminal(*check, answers=["\n"])
    assert code == 0 and "2 labels in 1" in output


def test_a_terminal_asks_for_the_job_and_stops_at_ctrl_c(data: Path) -> None:
    data.write_text("x\ty\n" + "".join(f"{0.5 * n**2}\t{0.25 * n**3}\n" for n in range(40)))
    output, code = in_terminal("train", "films.tsv", "--out", "runs/films", answers=[CTRL_C])
    assert code == 130 and "Which job?" in output and "Traceback" not in output, output
    assert not Path("runs").exists()


@pytest.mark.parametrize(("name", "separator"), [("enja.tsv", "\t"), ("enja.csv", ",")])
def test_pairs_without_spaces_train_a_translator(data: Path, name: str, separator: str) -> None:
    pytest.importorskip("py3langid")
    rows = [(f"the black cat number {n} sleeps", f"{n}番の黒い猫が眠る。") for n in range(60)]
    Path(name).write_text("".join(f"{separator.join(row)}\n" for row in rows), encoding="utf-8")
    settings = [*TINY, "tokenizer={kind='character'}"]
    shown = run("train", name, "--out", "runs/enja", *(part for value in settings for part in ("--set", value)))
    assert "texts in 0 and their translations in 1, English to Japanese" in shown.stderr
    saved = load_recipe("runs/enja/recipe.toml").data
    assert (saved.source_language, saved.target_language) == ("en", "ja")


def test_languages_of_a_folder_are_an_option(data: Path) -> None:
    Path("many").mkdir()
    for code in ("de", "en", "fr"):
        Path(f"many/train.{code}").write_text("".join(f"{code} {n} sentence\n" for n in range(40)))
    error = run("check", "many", "--no-measure", code=2).stderr
    assert "harken check many --pair en-de" in error
    shown = run("check", "many", "--no-measure", "--pair", "fr-de", "--set", "train.max_steps=5").stdout
    assert "fr -> de" in shown
