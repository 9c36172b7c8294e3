"""The verbs and options of the search: every key of [search] is an option, and mistakes are named."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.search.config import TranslationSearchConfig
from harken.search.descriptions import OPTIONS

sys.path.insert(0, str(Path(__file__).parents[1] / "tasks" / "translate"))
from test_translator import ENGLISH, FRENCH, write_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("search") / "model", "attention")


@pytest.fixture
def texts(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "in.en", tmp_path / "out.fr"
    source.write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    target.write_text("\n".join(FRENCH) + "\n", encoding="utf-8")
    return source, target


def test_every_key_of_the_recipe_is_described_once() -> None:
    keys = set(TranslationSearchConfig.model_fields) - {"goal", "batch_sentences"}
    assert keys == set(OPTIONS)
    for name, option in OPTIONS.items():
        assert TranslationSearchConfig.model_fields[name].description == option.description


def test_options_change_the_translation(run: Callable[..., Any], folder: Path, texts: tuple[Path, Path]) -> None:
    plain = run("translate", folder, texts[0], "--beam", "3").stdout.splitlines()
    forced = run("translate", folder, texts[0], "--beam", "3", "--prefix", "le chat").stdout.splitlines()
    assert len(plain) == len(forced) == len(ENGLISH)
    assert all(line.startswith("le chat") for line in forced)
    asked = run("translate", folder, texts[0], "--beam", "6", "--require", "chien").stdout.splitlines()
    assert all("chien" in line.split() for line in asked)
    sampled = [run("translate", folder, texts[0], "--sample", "--seed", seed).stdout for seed in ("1", "1", "2")]
    assert sampled[0] == sampled[1] != sampled[2]
    both = run("translate", folder, folder, texts[0], "--beam", "3", "--weights", "2,1").stdout.splitlines()
    assert both == plain
    others = run(
        "translate", folder, texts[0], "--beam", "2", "--prefix", "le", "--alternatives", "3"
    ).stdout.splitlines()
    assert [line.split(" ||| ")[0] for line in others[:3]] == ["0", "0", "0"]
    assert all(line.split(" ||| ")[1].startswith("le") for line in others)
    streamed = run("translate", folder, texts[0], "--beam", "3", "--stream").stdout.splitlines()
    assert streamed == plain


def test_scores_of_given_translations(run: Callable[..., Any], folder: Path, texts: tuple[Path, Path]) -> None:
    plain = run("score", folder, *texts).stdout.splitlines()
    rows = [json.loads(line) for line in run("score", folder, *texts, "--json").stdout.splitlines()]
    assert [row["target"] for row in rows] == FRENCH
    for line, row in zip(plain, rows, strict=True):
        assert float(line) == pytest.approx(row["score"], abs=1e-4)
        assert sum(one["log_probability"] for one in row["tokens"]) == pytest.approx(row["log_probability"], abs=1e-4)
        assert row["score"] == pytest.approx(row["log_probability"] / len(row["tokens"]), abs=1e-4)
    first = run("score", folder, *texts, "--tokens").stdout.splitlines()[0]
    assert first.split("\t")[1].split()[-1].startswith("</s>:")


def test_the_beam_in_a_terminal_and_as_a_file(run: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    done = run("beam", folder, ENGLISH[0], "--beam", "3", "--out", tmp_path / "beam.svg")
    assert done.exit_code == 0
    assert "★" in done.stdout
    assert "divided by" in done.stdout
    assert "<svg" in (tmp_path / "beam.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("translate", "{model}", "{source}", "--temperature", "0.5"), "also set search.sample = true"),
        (("translate", "{model}", "{source}", "--beam", "4", "--groups", "3"), "does not divide search.beam = 4"),
        (("translate", "{model}", "{source}", "--weights", "a,b"), "write them like 2,1,1"),
        (("translate", "{model}", "{source}", "{target}"), "are both files"),
        (("translate", "{model}", "{source}", "--glossary", "nowhere.tsv"), "nowhere.tsv"),
        (("translate", "{model}", "{source}", "--stream", "--json"), "--stream prints plain text"),
        (("translate", "{model}", "{source}", "--coverage-penalty", "-1"), "search.coverage_penalty"),
        (("score", "{model}", "{source}", "{short}"), "ends after 1 lines"),
        (("score", "{model}", "{short}", "{target}"), "ends after 1 lines"),
        (("score", "{model}", "{empty}", "{target}"), "line 1: the line is empty"),
        (("beam", "{model}", " "), "the sentence is empty"),
        (("beam", "{model}", "a cat", "--out", "beam.pdf"), "beam.html, beam.svg or beam.png"),
    ],
)
def test_mistakes_are_named(
    run: Callable[..., Any],
    folder: Path,
    texts: tuple[Path, Path],
    tmp_path: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    (tmp_path / "short").write_text("le chat\n")
    (tmp_path / "empty").write_text("\n" * len(ENGLISH))
    places = {"model": folder, "source": texts[0], "target": texts[1]}
    places |= {"short": tmp_path / "short", "empty": tmp_path / "empty"}
    done = run(*(argument.format(**places) for argument in arguments))
    assert done.exit_code == 2, done.stdout
    assert said in done.stderr.replace("\n", " ")
