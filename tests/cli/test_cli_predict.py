"""`harken predict`, and commands that exist only because a job declares an interface."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harken


def test_predict_is_the_command_of_the_job(
    run: Callable[..., Any], tiny_model: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tiny_model("opinions-classify")
    (tmp_path / "texts.txt").write_text("the film was not good\na fine film\n")
    for options in ((), ("--scores",), ("--top", "2", "--json")):
        expected = run("classify", folder, tmp_path / "texts.txt", *options)
        assert expected.exit_code == 0 and len(expected.stdout.splitlines()) == 2
        assert run("predict", folder, tmp_path / "texts.txt", *options).stdout == expected.stdout


def test_words_that_training_did_not_have_are_named_once(
    run: Callable[..., Any], tiny_model: Callable[[str], Path]
) -> None:
    folder = tiny_model("opinions-classify")
    known = run("predict", folder, stdin="the film was not good\nthe film was good\n")
    assert "did not have" not in known.stderr
    unseen = run("predict", folder, stdin="the film was 非常好\nthe film was good\nхороший фильм\n")
    assert unseen.stderr.count("2 of 3 examples have words or letters that training did not have (") == 1
    assert "хороший" in unseen.stderr and len(unseen.stdout.splitlines()) == 3


def test_predict_refuses_options_of_other_jobs(run: Callable[..., Any], tiny_model: Callable[[str], Path]) -> None:
    wrong = run("predict", tiny_model("opinions-classify"), "--conll", stdin="a\n")
    assert wrong.exit_code == 2 and "--conll" in wrong.stderr


def test_predict_needs_a_model_folder(run: Callable[..., Any], tmp_path: Path) -> None:
    wrong = run("predict", tmp_path / "nothing")
    assert wrong.exit_code == 2 and len(wrong.stderr.strip().splitlines()) == 1 and "nothing" in wrong.stderr


def test_gaps_are_filled(run: Callable[..., Any], tiny_model: Callable[[str], Path]) -> None:
    folder, text = tiny_model("phrasebook-masked"), "the black [MASK] sleeps"
    (gap,) = harken.load(folder, "cpu").fill(text, 3)
    assert run("fill", folder, "--count", "3", stdin=f"{text}\n").stdout == (
        " ".join(f"{token} {score:.4f}" for token, score in gap) + "\n"
    )
    (line,) = run("fill", folder, "--count", "3", "--json", stdin=f"{text}\n").stdout.splitlines()
    found = json.loads(line)
    assert found["text"] == text and [one["token"] for one in found["gaps"][0]] == [token for token, _ in gap]


def test_words_have_vectors(run: Callable[..., Any], tiny_model: Callable[[str], Path]) -> None:
    folder = tiny_model("phrasebook-elmo")
    layers = harken.load(folder, "cpu").vectors("the cat sleeps")
    lines = run("vectors", folder, stdin="the cat sleeps\n").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines if line] == ["the", "cat", "sleeps"]
    assert [float(value) for value in lines[1].split("\t")[1].split()] == pytest.approx(layers.mean(0)[1], abs=1e-4)
    (found,) = map(
        json.loads, run("vectors", folder, "--json", "--layers", stdin="the cat sleeps\n").stdout.splitlines()
    )
    assert len(found["vectors"]) == len(layers) and found["words"] == ["the", "cat", "sleeps"]


def test_further_operations_have_commands(run: Callable[..., Any], tiny_model: Callable[[str], Path]) -> None:
    folder = tiny_model("phrasebook-transformer")
    lines = run(
        "alternatives", folder, "--count", "2", "--beam", "3", stdin="the cat sleeps\na dog\n"
    ).stdout.splitlines()
    best = harken.load(folder, "cpu").alternatives("the cat sleeps", "", 2, beam=3)
    assert [json.loads(line)["source"] for line in lines] == ["the cat sleeps", "a dog"]
    assert [one["text"] for one in json.loads(lines[0])["alternatives"]] == [other.text for other in best]
    wrong = run("alternatives", tiny_model("opinions-classify"), stdin="a\n")
    assert wrong.exit_code == 2 and "the task 'classify', whose job has no 'alternatives'" in wrong.stderr
    gates = run("gates", tiny_model("opinions-classify"), "--units", stdin="a fine film\n")
    assert gates.exit_code == 0 and len(gates.stdout.splitlines()) == 1 and json.loads(gates.stdout)
