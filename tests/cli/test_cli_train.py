"""`harken train` and `harken demo`: what they refuse, what they call, what they say."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.cli.training import demo
from harken.data.text.pairs import Alignment, Pair

LINKS = Alignment.from_pharaoh("0-0")


def test_train_hands_everything_on(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("train", "phrasebook-rnn", "--out", out, "--set", "train.seed=2", "--set", "data.dir=../x", "--quiet")
    assert done.exit_code == 0
    assert api.trained == [("phrasebook-rnn", str(out), ["train.seed=2", "data.dir=../x"], False, False)]


def test_train_says_what_to_do_with_the_model(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    done = run("train", "phrasebook-rnn", "--out", tmp_path / "a b")
    assert f"harken translate '{tmp_path}/a b'" in done.stderr
    assert done.stdout == ""


def test_train_never_writes_over_a_model(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "something").write_text("")
    done = run("train", "phrasebook-rnn", "--out", tmp_path)
    assert done.exit_code == 2
    assert "--resume" in done.stderr
    assert run("train", "phrasebook-rnn", "--out", tmp_path / "something").exit_code == 2
    assert api.trained == []
    assert run("train", "phrasebook-rnn", "--out", tmp_path, "--resume").exit_code == 0
    assert api.trained[0][3] is True


def test_ctrl_c_says_how_to_go_on(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    api.interrupt = True
    done = run("train", "my recipe.toml", "--out", tmp_path / "out", "--set", "data.name=a b")
    assert done.exit_code == 130
    assert f"harken train 'my recipe.toml' --out {tmp_path}/out --set 'data.name=a b' --resume" in done.stderr


@pytest.fixture
def small_test_set(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair("a b c d", "A B C D", LINKS), Pair("e f g h", "E F G H", LINKS)]
    monkeypatch.setattr("harken.tasks.translate.job.TranslateJob.examples", lambda job, model, split: pairs)


@pytest.mark.usefixtures("small_test_set")
def test_demo_trains_scores_and_draws(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "demo"
    done = run("demo", "--out", out)
    assert done.exit_code == 0, done.stderr
    assert api.trained == [("tatoeba-transformer", str(out), [], False, True)]
    assert "Test BLEU 100.00" in done.stdout
    assert "version:" in done.stdout
    assert "Test chrF 100.00" in done.stdout
    assert "“The zebra is sleeping under the table.”: the model has never seen zebra, so" in done.stdout
    for sentence in demo.SENTENCES:
        assert f"{sentence}\t{sentence.upper()}" in done.stdout
    assert "0 of 5 are the reference translation." in done.stdout
    assert (out / "alignment.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert (out / "alignment.png").read_bytes().startswith(b"\x89PNG")
    assert f"translate {out}" in done.stdout


def test_the_demo_names_the_references_of_translations_that_differ() -> None:
    texts = list(demo.SENTENCES.values())
    assert demo.compare_with_references(texts) == "5 of 5 are the reference translation."
    texts[1] = texts[1].replace("encore", "de nouveau")
    assert demo.compare_with_references(texts).splitlines() == [
        "4 of 5 are the reference translation.",
        "“Our neighbor's cat is sleeping on my bed again.” is not: the reference is "
        "“Le chat de notre voisin dort encore sur mon lit.”.",
    ]


@pytest.mark.usefixtures("small_test_set")
def test_a_second_demo_reuses_and_a_stopped_one_goes_on(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "demo"
    api.interrupt = True
    stopped = run("demo", "--out", out)
    assert stopped.exit_code == 130
    assert "run the demo again" in stopped.stderr
    api.interrupt = False
    assert run("demo", "--out", out).exit_code == 0
    assert [call[3] for call in api.trained] == [False, True]
    done = run("demo", "--out", out)
    assert done.exit_code == 0
    assert "Using the finished model" in done.stderr
    assert len(api.trained) == 2


def test_demo_leaves_other_folders_alone(api: Any, run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    assert run("demo", "--out", tmp_path).exit_code == 2
    assert api.trained == []
