"""Verbs read files as the model's training data was, through the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harken.api import train

SHORT = [
    *("train.max_steps=2", "train.max_epochs=none", "train.max_minutes=none", "train.workers=1", "train.threads=1"),
    *("train.device=cpu", "train.precision=float32", "model.width=8", "model.embedding=8", "data.corpus=none"),
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("news")
    rows = "".join(f'{"good" if n % 2 else "bad"},"film {n}, seen"\n' for n in range(40))
    (home / "train.csv").write_text(f"verdict,review\n{rows}", encoding="utf-8")
    columns = [f"data.train={home / 'train.csv'}", "data.text_column=review", "data.label_column=verdict"]
    train("opinions-classify", home / "model", overrides=[*SHORT, *columns], progress=False)
    return home / "model"


def test_classify_reads_the_column_of_training(run: Callable[..., Any], classifier: Path, tmp_path: Path) -> None:
    news = tmp_path / "news.csv"
    news.write_text('verdict,review\ngood,"film 3, seen"\nbad,film 4\n')
    done = run("classify", classifier, news, "--json")
    assert [json.loads(line)["example"] for line in done.stdout.splitlines()] == ["film 3, seen", "film 4"]
    assert "texts from the column review" in done.stderr
    lines = run("classify", classifier, news, "--json", "--format", "lines")
    assert len(lines.stdout.splitlines()) == 3
    typed = run("classify", classifier, stdin="film 3, seen\nfilm 4\n")
    assert typed.stdout == run("classify", classifier, news).stdout and typed.stderr == ""
    other = tmp_path / "other.jsonl"
    other.write_text('{"body": "film 4"}\n')
    wrong = run("classify", classifier, other)
    assert wrong.exit_code == 2 and "no column 'review'" in wrong.stderr and "--text-column" in wrong.stderr
    assert len(run("classify", classifier, other, "--text-column", "body").stdout.splitlines()) == 1


def test_evaluate_counts_rows_without_an_answer(run: Callable[..., Any], classifier: Path, tmp_path: Path) -> None:
    news = tmp_path / "news.csv"
    news.write_text("verdict,review\ngood,film 3\n,film 4\nbad,\n")
    done = run("evaluate", classifier, news)
    assert done.exit_code == 0, done.stderr
    assert "skipped 1: no label" in done.stderr and "skipped 1: no text" in done.stderr and "1 texts" in done.stderr
    assert run("evaluate", classifier, news, "--names", "good").exit_code == 2


def test_a_line_that_is_not_utf8_stops_or_is_replaced(run: Callable[..., Any], classifier: Path) -> None:
    stopped = run("classify", classifier, stdin=b"film 1\n\xff film\nfilm 2\n")
    assert stopped.exit_code == 2 and "stdin, line 2 is not valid UTF-8" in stopped.stderr
    replaced = run("classify", classifier, "--replace", "--json", stdin=b"film 1\n\xff film\nfilm 2\n")
    assert replaced.exit_code == 0 and "stdin, line 2 is not valid UTF-8" in replaced.stderr
    assert [json.loads(line)["example"] for line in replaced.stdout.splitlines()] == ["film 1", "\ufffd film", "film 2"]


def test_a_misspelt_table_is_recognised(run: Callable[..., Any], tmp_path: Path) -> None:
    recipe = tmp_path / "my.toml"
    recipe.write_text('task = "tag"\n[data]\ncorpus = "phrasebook"\n[model]\narchitecture = "recurrent"\n[training]\n')
    done = run("check", recipe)
    assert done.exit_code == 2 and "training in" in done.stderr and "did you mean train?" in done.stderr


def test_older_names_of_keys_give_a_note(run: Callable[..., Any], tmp_path: Path) -> None:
    done = run("check", "series-forecast", "--set", f"data.file={tmp_path / 'no.csv'}")
    assert done.exit_code == 2
    assert done.stderr.startswith("note: data.file is now called data.train; the old name still works\n")
