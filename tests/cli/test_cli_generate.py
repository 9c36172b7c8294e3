"""`harken generate` on a folder barely trained."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.api import load, train

TINY = [
    "data.size=200",
    "train.max_steps=2",
    "train.max_minutes=none",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
]
SMALL = ["model.width=12", "model.embedding=8", "train.precision=float32"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models") / "language"
    train("phrasebook-language", place, overrides=[*TINY, *SMALL], progress=False)
    return place


def test_it_writes_on_from_a_prompt(run: Callable[..., Any], folder: Path) -> None:
    done = run("generate", folder, "the cat", "--length", "7", "--seed", "3")
    assert done.exit_code == 0
    assert done.stdout == "the cat" + load(folder).generate("the cat", length=7, seed=3) + "\n"
    again = run("generate", folder, "-", "--length", "7", "--seed", "3", stdin="the cat\n")
    assert again.stdout == done.stdout


def test_several_texts_as_json(run: Callable[..., Any], folder: Path) -> None:
    done = run("generate", folder, "the", "a", "--count", "2", "--length", "4", "--top-k", "9", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["prompt"] for one in found] == ["the", "the", "a", "a"]
    assert found[0]["text"] != found[1]["text"]


def test_surprisal_is_shown_and_drawn(run: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    done = run("generate", folder, "the cat is", "--surprisal", "--out", tmp_path / "s.svg")
    assert done.exit_code == 0 and "Mean " in done.stdout
    assert "<svg" in (tmp_path / "s.svg").read_text()
    rows = json.loads(run("generate", folder, "the cat is", "--surprisal", "--json").stdout)
    assert [row["token"] for row in rows] == ["the", "cat", "is"]
    assert sum(row["nats"] for row in rows) == pytest.approx(
        -load(folder).score("the cat is").log_probabilities.sum(), abs=1e-3
    )


def test_gates_and_gradients_through_inspect(run: Callable[..., Any], folder: Path) -> None:
    gates = run("inspect", folder, "--gates", "the cat is", "--json")
    assert json.loads(gates.stdout)["layers"][0]["words"] == ["⏎", "the", "cat"]
    flow = run("inspect", folder, "--gradients", "--sentences", "8", "--json")
    assert flow.exit_code == 0 and len(json.loads(flow.stdout)["models"]["language"]["layers"]) == 1


def test_evaluate_prints_the_baseline_beside_it(run: Callable[..., Any], folder: Path) -> None:
    found = json.loads(run("evaluate", folder, "--json").stdout)
    assert found["perplexity"] > found["5-gram perplexity"] > 10
    assert found["perplexity_interval"][0] < found["perplexity"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["x", "--top-p", "0"], "top-p is 0.0"),
        (["x", "--out", "a.svg"], "--out writes the picture of --surprisal"),
        (["x", "--surprisal", "--out", "a.gif"], "name it like surprisal.html, surprisal.svg or surprisal.png"),
        ([" ", "--surprisal"], "there is no text to score"),
    ],
)
def test_mistakes_are_one_sentence(run: Callable[..., Any], folder: Path, options: list[str], words: str) -> None:
    done = run("generate", folder, *options)
    assert done.exit_code == 2 and words in done.stderr and len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(("option", "value"), [("--temperature", "-1"), ("--top-p", "2"), ("--length", "0")])
def test_options_out_of_their_bounds_are_usage_errors(
    run: Callable[..., Any], folder: Path, option: str, value: str
) -> None:
    done = run("generate", folder, "x", option, value)
    assert done.exit_code == 2 and option in done.stderr and "or equal to" in done.stderr
