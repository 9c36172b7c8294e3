"""`harken evaluate` and `harken attention`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.data.text.pairs import Alignment, Corpus, Pair

LINES = ("a b c d e", "f g h i j", "k l m n o")
GOLD = Alignment.from_pharaoh("0-0")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, reference = tmp_path / "test.en", tmp_path / "test.fr"
    source.write_text("".join(f"{line}\n" for line in LINES))
    reference.write_text("".join(f"{line.upper()}\n" for line in LINES))
    return source, reference


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Corpus:
    def pairs(count: int) -> list[Pair]:
        return [Pair(line, line.upper(), GOLD) for line in LINES[:count]]

    made = Corpus("phrasebook", "en", "fr", pairs(1), pairs(3), {"test": pairs(2), "test-long": pairs(1)})
    monkeypatch.setattr("harken.tasks.translate.job.read_corpus", lambda config: made)
    return made


def test_files_are_scored(api: Any, run: Callable[..., Any], model: Path, files: tuple[Path, Path]) -> None:
    done = run("evaluate", model, "--source", files[0], "--reference", files[1])
    assert done.exit_code == 0, done.stderr
    bleu, chrf, exact = done.stdout.splitlines()
    assert bleu.startswith("BLEU\t100.00\tnrefs:1|")
    assert chrf.startswith("chrF\t100.00\t")
    assert exact == "exact match\t100.00\tpercent right as a whole; 100.00 to 100.00, 95% interval"


def test_scores_and_translations_are_written(
    api: Any, run: Callable[..., Any], model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    done = run("evaluate", model, "--source", files[0], "--reference", files[1], "--out", tmp_path / "out", "--json")
    assert json.loads((tmp_path / "out" / "scores.json").read_text()) == json.loads(done.stdout)
    rows = [json.loads(line) for line in (tmp_path / "out" / "outputs.jsonl").read_text().splitlines()]
    assert rows == [{"output": line.upper(), "reference": line.upper()} for line in LINES]


def test_splits_of_the_models_own_corpus_are_scored_with_their_links(
    api: Any, run: Callable[..., Any], model: Path, corpus: Corpus
) -> None:
    for split, count in (((), 2), (("--split", "test-long"), 1), (("--split", "valid"), 3)):
        report = json.loads(run("evaluate", model, *split, "--json").stdout)
        assert report["sentences"] == count
        assert report["alignment_error"] == 0.125
    assert "AER\t0.125" in run("evaluate", model).stdout
    wrong = run("evaluate", model, "--split", "tets")
    assert wrong.exit_code == 2
    assert "valid or test or test-long" in wrong.stderr


def test_a_corpus_with_one_test_of_another_name_needs_no_split(
    api: Any, run: Callable[..., Any], model: Path, corpus: Corpus
) -> None:
    corpus.tests = {"test_2016_flickr": corpus.tests["test"]}
    assert json.loads(run("evaluate", model, "--json").stdout)["sentences"] == 2


def test_another_system_is_compared(
    api: Any, run: Callable[..., Any], model: Path, files: tuple[Path, Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.fr"
    other.write_text("A B C D E\nF G H I J\nK L x N O\n")
    source = ("--source", files[0], "--reference", files[1])
    report = json.loads(run("evaluate", model, *source, "--compare", other, "--json").stdout)["comparison"]
    assert report["difference"] > 0
    assert report["interval"][0] <= report["difference"] <= report["interval"][1]
    same = json.loads(run("evaluate", model, *source, "--compare", model, "--json").stdout)["comparison"]
    assert (same["difference"], same["p_value"], same["test"]) == (0, 1.0, "bootstrap")
    swapped = run("evaluate", model, *source, "--compare", other, "--test", "randomisation", "--json")
    assert json.loads(swapped.stdout)["comparison"]["samples"] == 10_000
    assert "choose bootstrap or randomisation" in run("evaluate", model, *source, "--test", "t").stderr
    assert "compared\t" in run("evaluate", model, *source, "--compare", other).stdout
    other.write_text("one line\n")
    short = run("evaluate", model, *source, "--compare", other)
    assert short.exit_code == 2
    assert "has 1 lines, but 3 sentences" in short.stderr


def test_files_that_do_not_fit(api: Any, run: Callable[..., Any], model: Path, files: tuple[Path, Path]) -> None:
    files[1].write_text("A\n")
    unequal = run("evaluate", model, "--source", files[0], "--reference", files[1])
    assert unequal.exit_code == 2
    assert "has 3 lines but" in unequal.stderr
    alone = run("evaluate", model, "--source", files[0])
    assert alone.exit_code == 2
    assert "used together" in alone.stderr
    both = run("evaluate", model, "--source", files[0], "--reference", files[1], "--split", "test")
    assert both.exit_code == 2
    for file in files:
        file.write_text("")
    assert "is empty" in run("evaluate", model, "--source", files[0], "--reference", files[1]).stderr


def test_the_map_is_drawn_and_saved(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    for name, start in (("map.html", b"<!doctype html>"), ("map.svg", b"<svg"), ("map.png", b"\x89png")):
        out = tmp_path / name
        done = run("attention", model, "the cat", "--out", out)
        assert done.exit_code == 0, done.stderr
        assert "THE CAT" in done.stdout
        assert "1.0" in done.stdout
        assert out.read_bytes().lower().startswith(start)


def test_a_translation_can_be_forced(api: Any, run: Callable[..., Any], model: Path) -> None:
    done = run("attention", model, "the cat", "--target", "le chat noir")
    assert done.stdout.startswith("le chat noir")
    assert ".50" in done.stdout


def test_every_layer_and_head(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    done = run("attention", model, "the cat", "--layers", "--out", tmp_path / "all.html")
    assert done.exit_code == 0, done.stderr
    assert all(f"layer {layer}, head {head}" in done.stdout for layer in (1, 2, 3) for head in (1, 2))
    assert (tmp_path / "all.html").is_file()
    assert run("attention", model, "the cat", "--layers", "--out", tmp_path / "all.png").exit_code == 2


def test_what_cannot_be_drawn(api: Any, run: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    assert run("attention", model, "  ").exit_code == 2
    assert "map.html" in run("attention", model, "a", "--out", tmp_path / "map.pdf").stderr
    api.attends = False
    done = run("attention", model, "a")
    assert done.exit_code == 2
    assert "has no attention" in done.stderr
