"""Facts about data before training: `harken.look` and `harken look`."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.recipe.look import Look

ENGLISH = [f"the black cat number {n} sleeps in the old house" for n in range(40)]
JAPANESE = [f"{n}番の黒い猫が古い家で眠る" for n in range(40)]


def written(path: Path, rows: list[list[str]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_pairs_have_languages_lengths_and_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [list(row) for row in zip(ENGLISH, JAPANESE, strict=True)]
    written(tmp_path / "my pairs.tsv", [*rows, rows[0]])
    report = harken.look("my pairs.tsv")
    assert isinstance(report, Look) and (report.task, report.rows, report.duplicates) == ("translate", 41, 1)
    assert [(column.script, column.language) for column in report.columns] == [("Latin", "en"), ("Japanese", "ja")]
    assert report.columns[0].words == {"median": 10, "95%": 10, "most": 10}
    assert shlex.split(report.command) == ["harken", "train", "my pairs.tsv", "--out", "runs/mine"]
    assert "English to Japanese" in report.reason


def test_labels_are_counted_and_empty_cells_too(tmp_path: Path) -> None:
    rows = [[text, "" if n == 7 else "ab"[n % 4 == 0]] for n, text in enumerate(ENGLISH)]
    report = harken.look(written(tmp_path / "cats.tsv", rows))
    label = report.columns[1]
    assert (label.kind, label.empty, label.values) == ("label", 1, {"a": 29, "b": 10})
    assert label.majority == pytest.approx(29 / 39)
    assert ("rows", "40") in report.facts and not report.is_sample


def test_a_sample_is_called_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("harken.data.io.table", "harken.recipe.infer.files"):
        monkeypatch.setattr(f"{module}.MOST_ROWS", 20)
    report = harken.look(written(tmp_path / "cats.tsv", [[text, "ab"[n % 2]] for n, text in enumerate(ENGLISH)]))
    assert report.rows == 20 and ("rows", "the first 20 of the file") in report.facts
    tagged = tmp_path / "words.conll"
    tagged.write_text("".join(f"the D\ncat N\nsleeps{n} V\n\n" for n in range(60)), encoding="utf-8")
    report = harken.look(tagged)
    assert (report.task, report.rows, report.is_sample) == ("tag", 20, True)


def test_tagged_sentences_have_lengths_and_tags(tmp_path: Path) -> None:
    path = tmp_path / "words.conll"
    path.write_text("".join(f"the D\ncat N\n{'now A' if n % 4 else ''}\n\n" for n in range(60)), encoding="utf-8")
    facts = dict(harken.look(path).facts)
    assert facts["sentences"] == "60; words: median 3, 95% 3, most 3" and "repeat" not in facts["words"]
    assert facts["labels in tag"].startswith("D 60, N 60, A 45")


def test_signals_have_lengths_channels_and_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.ts"
    rows = [f"{','.join('1' * (3 + n))}:{','.join('2' * (3 + n))}:{'ab'[n % 3 == 0]}\n" for n in range(9)]
    path.write_text("@problemName x\n@data\n" + "".join(rows))
    facts = dict(harken.look(path).facts)
    assert facts["signals"] == "9; 2 channels; steps: median 7, 95% 10, most 11"
    assert facts["labels"] == "a 6, b 3; the most frequent has a share of 66.7%"


def test_folders_of_texts_show_some(tmp_path: Path) -> None:
    for name in ("neg", "pos"):
        (tmp_path / "mine").mkdir(exist_ok=True)
        (tmp_path / "mine" / f"{name}.txt").write_text("".join(f"{name} {line}\n" for line in ENGLISH))
    report = harken.look(tmp_path / "mine")
    assert (report.task, report.rows) == ("classify", 80)
    assert ("labels in label", "neg 40, pos 40; the most frequent has a share of 50.0%") in report.facts
    (tmp_path / "plain").mkdir()
    for split in ("train", "test"):
        (tmp_path / "plain" / f"{split}.txt").write_text("".join(f"{split} {line}\n" for line in ENGLISH))
    report = harken.look(tmp_path / "plain")
    assert (report.task, report.rows) == ("language", 40)


def test_what_is_undecided_has_choices(tmp_path: Path) -> None:
    rows = [[text, "ab"[n % 2], "xyz"[n % 3]] for n, text in enumerate(ENGLISH)]
    report = harken.look(written(tmp_path / "cats.tsv", rows))
    assert report.task is None and report.choices == ["1", "2"]
    assert [column.kind for column in report.columns] == ["text", "label", "label"]
    assert shlex.split(report.command)[2:5] == [str(tmp_path / "cats.tsv"), "--target-column", "1"]


def run(*arguments: Any, code: int = 0) -> Any:
    result = CliRunner().invoke(app, ["look", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


def test_the_command_prints_the_facts(tmp_path: Path) -> None:
    path = written(tmp_path / "cats.tsv", [[text, "ab"[n % 2]] for n, text in enumerate(ENGLISH)])
    shown = run(path).stdout
    assert "labels in 1\ta 20, b 20; the most frequent has a share of 50.0%" in shown
    assert shown.splitlines()[-1] == f"harken train {path} --out runs/cats"
    assert json.loads(run(path, "--json").stdout) == harken.look(path).to_dict()
    assert "does not exist" in run(tmp_path / "none.csv", code=2).stderr


def test_a_notebook_shows_a_table_without_markup_of_the_data(tmp_path: Path) -> None:
    path = written(tmp_path / "cats.tsv", [[f"<b>{text}", "ab"[n % 2]] for n, text in enumerate(ENGLISH)])
    page = harken.look(path)._repr_html_()
    assert "&lt;b&gt;the black cat" in page and "<b>" not in page
