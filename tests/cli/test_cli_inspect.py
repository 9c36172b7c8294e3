"""`harken inspect` on real folders, barely trained."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harken.api import train
from harken.cli.inspection.inspect import _input_of
from harken.tasks.answer.interface import Stories
from harken.tasks.interface import Files, Input, Interface, Prompts, Texts
from harken.tasks.job import Job

TINY = [
    "data.size=300",
    "train.max_steps=2",
    "train.validate_sentences=2",
    "train.workers=1",
    "train.device=cpu",
    "train.precision=float32",
]
SMALL = ["model.width=16", "model.embedding=8", "train.precision=float32"]
SENTENCE = "the black cat sleeps"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("models")
    train("phrasebook-rnn", place / "rnn", overrides=[*TINY, *SMALL], progress=False)
    train("phrasebook-attention", place / "gru", overrides=[*TINY, *SMALL, "model.cell=gru"], progress=False)
    heads = ["model.width=16", "model.heads=2", "model.feedforward=16", "train.precision=float32"]
    train("phrasebook-transformer", place / "transformer", overrides=[*TINY, *heads], progress=False)
    return {name: place / name for name in ("rnn", "gru", "transformer")}


def test_alone_it_gives_a_summary(run: Callable[..., Any], folders: dict[str, Path]) -> None:
    done = run("inspect", folders["rnn"])
    assert done.exit_code == 0
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    parts = {row[0]: int(row[1].replace(",", "")) for row in rows if len(row) == 3}
    assert parts.pop("all") == sum(parts.values())
    assert [row[:4] for row in rows if len(row) == 6][-1] == ["decoder.layers.0", "LSTM", "8", "16"]
    found = json.loads(run("inspect", folders["rnn"], "--json").stdout)
    assert found["parameters"] == sum(parts.values())
    assert set(found["recurrent"][0]["weights"]) == {"all gates", "input", "forget", "candidate", "output"}
    transformer = run("inspect", folders["transformer"])
    assert transformer.exit_code == 0
    assert "--gradients" in transformer.stderr and "harken attention" in transformer.stderr


def test_gates_of_a_sentence(run: Callable[..., Any], folders: dict[str, Path], tmp_path: Path) -> None:
    done = run("inspect", folders["rnn"], "--gates", SENTENCE, "--out", tmp_path / "gates.html")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{SENTENCE} → ")
    assert done.stdout.count("\nforget gate\n") == 3  # two ways of the encoder, and the decoder
    assert "gates.html" in done.stderr and (tmp_path / "gates.html").read_text().startswith("<!doctype html>")
    found = json.loads(run("inspect", folders["gru"], "--gates", SENTENCE, "--layer", 2, "--json").stdout)
    (layer,) = found["layers"]
    assert layer["words"] == [*SENTENCE.split(), "</s>"]
    assert (layer["cell"], layer["units"]) == ("GRU", 8)
    assert len(layer["gates"]["update"]["mean"]) == 5


def test_gradients_on_the_valid_split_and_on_files(
    run: Callable[..., Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    arguments = ["--compare", folders["gru"], "--sentences", 10, "--out", tmp_path / "flow.svg"]
    done = run("inspect", folders["rnn"], "--gradients", *arguments)
    assert done.exit_code == 0, done.stderr
    assert "rnn: encoder" in done.stdout and "gru: decoder" in done.stdout
    drawn = (tmp_path / "flow.svg").read_text()
    assert "steps to the loss" in drawn and "rows behind each point" in drawn and drawn.count(" a step</text>") >= 2
    (tmp_path / "a").write_text("the cat sleeps\nthe black cat eats a small fish\n")
    (tmp_path / "b").write_text("le chat dort\nle chat noir mange un petit poisson\n")
    files = ["--source", tmp_path / "a", "--target", tmp_path / "b"]
    found = json.loads(run("inspect", folders["rnn"], "--gradients", *files, "--json").stdout)
    assert found["sentences"] == 2
    layers = found["models"]["rnn"]["layers"]
    assert [layer["name"].split()[0] for layer in layers] == ["encoder.layers.0", "encoder.layers.0", "decoder"]
    assert len(layers[0]["gradient_by_distance"]["cell"]) == 4  # three words and the end: further on one row is left
    assert layers[0]["rows_by_distance"] == [2] * 4 and layers[0]["verdict"]["kind"] == "unclear"
    assert len(layers[2]["gradient_by_distance"]["hidden"]) == 4
    assert layers[2]["jacobian"]["span"] == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--gates", " "], "empty"),
        (["--gates", SENTENCE, "--gradients"], "one at a time"),
        (["--gates", SENTENCE, "--layer", 9], "choose one of: 1 encoder.layers.0 →"),
        (["--gradients", "--target", "x"], "used together"),
        (["--gradients", "--source", "x", "--target", "y", "--split", "valid"], "keep one"),
        (["--gradients", "--split", "nothing"], "no split"),
        (["--compare", "x"], "are for --gradients"),
        (["--layer", 1], "--layer is for --gates"),
        (["--out", "x.svg"], "say which"),
        (["--gradients", "--out", "x.pdf"], ".html, .svg or .png"),
    ],
)
def test_mistakes_are_said_in_one_sentence(
    run: Callable[..., Any], folders: dict[str, Path], arguments: list[Any], said: str
) -> None:
    done = run("inspect", folders["rnn"], *arguments)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_transformer_has_no_gates(run: Callable[..., Any], folders: dict[str, Path]) -> None:
    done = run("inspect", folders["transformer"], "--gates", SENTENCE)
    assert done.exit_code == 2
    assert "no recurrent layers" in done.stderr and "harken attention" in done.stderr


def test_gradients_of_a_transformer_by_block(run: Callable[..., Any], folders: dict[str, Path]) -> None:
    done = run("inspect", folders["transformer"], "--gradients", "--json")
    assert done.exit_code == 0, done.stderr
    (found,) = json.loads(done.stdout)["models"].values()
    names = [layer["name"] for layer in found["layers"]]
    assert "encoder.stack.blocks.0" in names and "decoder.stack.blocks.0" in names
    last = found["layers"][-1]  # its output at a step reaches the loss of that step alone
    assert last["verdict"]["kind"] == "direct" and last["verdict"]["factor"] is None
    assert last["gradient_by_distance"]["hidden"][0] > 0 and not any(last["gradient_by_distance"]["hidden"][1:])


def test_gates_of_a_file_are_those_of_its_first_line(
    run: Callable[..., Any], folders: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "sentences.txt"
    file.write_text(f"\n{SENTENCE}\nwe clean the house\n")
    found, typed = (run("inspect", folders["rnn"], "--gates", given, "--json") for given in (file, SENTENCE))
    assert found.stdout == typed.stdout and SENTENCE in found.stdout
    assert "the first of 2 lines" in found.stderr
    file.write_text("\n \n")
    empty = run("inspect", folders["rnn"], "--gates", file)
    assert empty.exit_code == 2 and "holds no text" in empty.stderr


@pytest.mark.parametrize(
    ("form", "expected"), [(Texts(), "one two"), (Prompts(), "one two"), (Stories(), "one two three"), (Files(), None)]
)
def test_what_is_read_of_a_file_follows_from_the_interface(form: Input, expected: str | None, tmp_path: Path) -> None:
    """Of jobs of plugins, too, which no list of tasks names."""

    class Own(Job):
        interface = Interface("restore", "Restore the spaces of text.", form)

    file = tmp_path / "text.txt"
    file.write_text("one two\nthree\n", encoding="utf-8")
    model = SimpleNamespace(recipe=SimpleNamespace(task="spaces", data=None))
    assert _input_of(model, Own(), str(file)) == (expected or str(file))
    assert _input_of(model, Own(), "one two") == "one two"
