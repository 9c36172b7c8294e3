"""`harken regress`: a number for every text or signal."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harken

RECIPE = """
task = "regress"
[data]
{data}
valid_size = 6
[model]
architecture = "recurrent"
embedding = 8
width = 8
[train]
max_steps = 3
batch_tokens = 200
workers = 1
threads = 1
device = "cpu"
precision = "float32"
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that reads texts."""
    home = tmp_path_factory.mktemp("texts")
    rows = [f"{word} {noun},{stars}" for noun in "abcdefgh" for word, stars in (("good", 5), ("bad", 1))]
    (home / "stars.csv").write_text("\n".join(["text,stars", *rows]) + "\n")
    (home / "recipe.toml").write_text(RECIPE.format(data=f'train = "{home}/stars.csv"\nlabel_column = "stars"'))
    harken.train(home / "recipe.toml", home / "model", progress=False)
    return home / "model"


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a model that reads signals."""
    home = tmp_path_factory.mktemp("signals")
    values = np.random.default_rng(1).normal(size=(20, 5, 2)).astype(np.float32)
    np.savez(home / "train.npz", values=values, labels=values.mean((1, 2)).round(3).astype(str))
    (home / "recipe.toml").write_text(RECIPE.format(data=f'kind = "signal"\ntrain = "{home}/train.npz"'))
    harken.train(home / "recipe.toml", home / "model", progress=False)
    return home / "model"


def test_a_number_for_every_line_of_stdin_or_a_file(run: Callable[..., Any], texts: Path, tmp_path: Path) -> None:
    lines = ["good a", "bad b and more words", ""]
    expected = [f"{value:.6g}" for value in harken.load(texts, "cpu").predict(lines)]
    typed = run("regress", texts, stdin="\n".join(lines) + "\n")
    assert typed.exit_code == 0, typed.stderr
    assert typed.stdout.splitlines() == expected
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    assert run("regress", texts, tmp_path / "in.txt").stdout == typed.stdout


def test_json_has_the_text_and_the_whole_number(run: Callable[..., Any], texts: Path) -> None:
    (line,) = run("regress", texts, "--json", stdin="good a\n").stdout.splitlines()
    found = json.loads(line)
    assert found == {"example": "good a", "value": harken.load(texts, "cpu").predict(["good a"])[0]}


def test_signals_come_from_a_file(run: Callable[..., Any], signals: Path) -> None:
    file = signals.parent / "train.npz"
    lines = run("regress", signals, file, "--json").stdout.splitlines()
    values = [json.loads(line)["value"] for line in lines]
    assert [json.loads(line)["example"] for line in lines] == list(range(20))
    assert values == pytest.approx(list(harken.load(signals, "cpu").predict(list(np.load(file)["values"]))))
    without = run("regress", signals, stdin="")
    assert without.exit_code == 2 and "signals do not come through stdin" in without.stderr


def test_help_has_examples(run: Callable[..., Any]) -> None:
    shown = run("regress", "--help").stdout
    assert "harken regress runs/prices homes.txt --json" in shown and "harken regress runs/load signals.npz" in shown


def test_other_verbs_point_to_it(run: Callable[..., Any], texts: Path) -> None:
    wrong = run("classify", texts, stdin="a\n")
    assert wrong.exit_code == 2 and wrong.stderr.endswith(f"use harken regress {texts} examples\n")
    scored = json.loads(run("evaluate", texts, texts.parent / "stars.csv", "--json").stdout)
    assert scored["examples"] == 16 and scored["task"] == "regress"
    beam = run("evaluate", texts, "--beam", "3")
    assert beam.exit_code == 2 and "--beam is not an option for a model of this task" in beam.stderr


def test_the_figure_of_an_example_shows_its_words(run: Callable[..., Any], texts: Path, tmp_path: Path) -> None:
    done = run("attention", texts, "good house", "--out", tmp_path / "words.svg")
    assert done.exit_code == 0, done.stderr
    assert "good" in done.stdout and "house" in done.stdout
    assert (tmp_path / "words.svg").is_file()


def test_evaluate_names_the_split_and_its_use_and_shows_notes_once(texts: Path, run: Callable[..., Any]) -> None:
    done = run("evaluate", texts)  # there is no test
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("valid: ") == 1
    assert "valid: 6 examples, 6 held out of stars.csv by data.seed 1; it chose the weights" in done.stderr
    assert done.stderr.count("worse than its baseline") == 1
    report = json.loads(run("evaluate", texts, "--json").stdout)
    assert report["split"]["name"] == "valid" and report["split"]["source"].startswith("6 held out")
    assert "split" not in json.loads(run("evaluate", texts, texts.parent / "stars.csv", "--json").stdout)
