"""BLEU against training FLOPs: counted budgets, what chooses a setting, going on after a kill, and the report."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken.api
from harken.cli.app import app
from harken.errors import UserError
from harken.lab.table2 import FAMILIES, RECORD, SETTINGS, Family, Record, Run, Table2, divide_dev, families_named
from harken.lab.table2_report import Report
from harken.models.build import build_model
from harken.models.sizing import measure, uninitialised
from harken.recipe import as_recipe

TINY = [
    "data.size=200",
    "train.batch_tokens=128",
    "train.validate_sentences=4",
    "train.workers=1",
    "train.precision=float32",
    "search.beam=1",
    "search.max_length_factor=0.1",  # what barely trained models write has no end
    "search.max_length_extra=2",
]
SMALL = {"architecture": "transformer", "layers": 1, "width": 16, "heads": 2, "feedforward": 32}
TWO = (
    Family("transformer-base", "tiny", SMALL),
    Family("experts", "tiny, 1 of 4 experts", {**SMALL, "experts": 4, "experts_active": 1}, most=1e8),
)


def tiny(folder: Path, **options: Any) -> Table2:
    return Table2(folder, "phrasebook-transformer", TINY, families=TWO, **{"budgets": [1e8, 3e8], **options})


@pytest.mark.slow
def test_a_table_is_trained_killed_resumed_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, marker = harken.api.train, tmp_path / "killed"

    def killed_once(recipe: Any, folder: Path, **options: Any) -> Any:
        if folder.name == "experts-1e8-seed1-trial1" and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return train(recipe, folder, **options)

    monkeypatch.setattr(harken.api, "train", killed_once)
    lines: list[str] = []
    first = tiny(tmp_path)
    first.run(report=lines.append)
    assert any("SIGKILL" in line for line in lines) and first.choice("experts") == 0  # of the trials that ended
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/model.safetensors")}

    again = tiny(tmp_path)
    assert [run.name for run, _ in again.missing()] == ["experts-1e8-seed1-trial1"]
    again.run()
    assert again.missing() == [] and not list(tmp_path.glob("runs/*/checkpoint*"))
    assert {path: path.stat().st_mtime_ns for path in trained} == trained  # nothing was trained twice
    for name, budget, count in (("transformer-base", 1e8, 1), ("transformer-base", 3e8, 1), ("experts", 3e8, 0)):
        scored = again.record.scored(name, budget)
        assert len(scored) == count
        for run, entry in scored:
            losses = [again.record.entries[Run(name, 1e8, 1, trial)]["loss"] for trial in range(2)]
            assert losses[run.trial] == min(losses)
            assert entry["flops"] == pytest.approx(budget, rel=0.3)
            assert entry["dropout"] == SETTINGS[run.trial][1]

    with pytest.raises(UserError, match="another recipe"):
        Table2(tmp_path, "phrasebook-transformer", [*TINY, "train.clip_norm=2"], families=TWO).run()

    report = Report(tiny(tmp_path))
    text = report.markdown()
    assert "| missing | 0 of 1 |" in text  # the ensemble
    assert "baseline" in text and "|case:mixed|" in text
    experts = next(row for row in report.rows if row.family == "experts")
    assert experts.active < experts.parameters and experts.p_value is not None
    assert {path.name for path in report.save()} >= {"table.md", "bleu-flops.svg", "bleu-seconds.png"}
    assert ">experts<" in (tmp_path / "bleu-flops.svg").read_text()


def test_flops_are_those_of_sizing_at_the_mean_length_and_idle_experts_are_not_active(tmp_path: Path) -> None:
    table = tiny(tmp_path)
    costs = table.measure()
    base, experts = costs["transformer-base"], costs["experts"]
    model = uninitialised(lambda: build_model(as_recipe(*table.recipe_of(TWO[0])).model, 400, 400))
    assert base.parameters == base.active and base.tokens == experts.tokens > 1000
    assert 0.2 < base.flops / measure(model, 10).flops < 2
    inner = 2 * 16 * 32 + 32 + 16  # an expert
    assert experts.parameters - experts.active == 2 * 3 * inner  # three idle ones in encoder and decoder


def test_a_line_that_a_kill_cut_short_is_no_line(tmp_path: Path) -> None:
    run, other = Run("rnn", 1e15, 1, 0), Run("rnn", 3e15, 1, 0)
    record = Record(tmp_path / RECORD)
    record.add(run, {"loss": 2.0})
    record.add(other, {"error": "out of memory"})
    with open(tmp_path / RECORD, "a") as file:
        file.write('{"family": "rnn", "budget": 3e15, "se')
    again = Record(tmp_path / RECORD)
    assert again.entries == {run: {"loss": 2.0}}
    again.add(run, {"bleu": 5.0})
    again.add(other, {"loss": 1.0})
    assert Record(tmp_path / RECORD).entries == {run: {"loss": 2.0, "bleu": 5.0}, other: {"loss": 1.0}}


def test_trials_come_first_then_budgets_then_seeds_and_an_ensemble_when_its_models_are_there(tmp_path: Path) -> None:
    table = tiny(tmp_path, seeds=3)
    assert {(run.trial, scores) for run, scores in table.missing()} == {(0, False), (1, False)}
    for run, _ in table.missing():
        table.record.add(run, {"loss": 3.0 - run.trial, "bleu": 50.0 * (1 - run.trial)})  # BLEU chooses nothing
    assert table.choice("experts") == 1
    names = [run.name for run, _ in table.missing()]
    assert names[:2] == ["transformer-base-3e8-seed1-trial1", "transformer-base-1e8-seed2-trial1"]
    assert "experts-3e8-seed1-trial1" not in names  # beyond its largest budget
    for seed in (2, 3):
        table.record.add(Run("transformer-base", 1e8, seed, 1), {"loss": 1.0, "bleu": 1.0})
    table.record.entries.pop(Run("experts", 1e8, 1, 0))  # a trial that is still missing
    assert [(run.name, scores) for run, scores in table.missing()][:2] == [
        ("experts-1e8-seed1-trial0", False),
        ("transformer-base-3e8-seed1-trial1", True),
    ]
    assert not table.members(1e8)
    for run, _ in table.record.scored("transformer-base", 1e8):
        (tmp_path / "runs" / run.name).mkdir(parents=True)
        (tmp_path / "runs" / run.name / "card.md").touch()
    assert len(table.members(1e8)) == 3 and (Run("ensemble", 1e8, 0, 0), True) in table.missing()


def test_a_development_set_is_divided_into_halves(tmp_path: Path) -> None:
    for name, count in (("a", 5), ("b", 5), ("c", 4)):
        (tmp_path / name).write_text("".join(f"{name}{number}\n" for number in range(count)))
    overrides = divide_dev(tmp_path / "a", tmp_path / "b", tmp_path / "dev")
    texts = {override.partition("=")[0]: Path(override.partition("=")[2]).read_text() for override in overrides}
    assert texts["data.valid.source"] == "a0\na1\n" and texts["data.test.test.target"] == "b2\nb3\nb4\n"
    with pytest.raises(UserError, match=r"5 lines and .* 4"):
        divide_dev(tmp_path / "a", tmp_path / "c", tmp_path / "dev")


def test_every_family_is_a_network_and_misspelt_ones_are_refused(tmp_path: Path) -> None:
    table = Table2(tmp_path)
    data = ["data.source=a", "data.target=b"]
    for family in families_named(None):
        values, overrides = table.recipe_of(family)
        model = as_recipe(values, [*overrides, *data]).model
        assert {key: getattr(model, key) for key in family.words} == family.words and model.tied == "all"
    assert [family.name for family in families_named(["rnn", "gnmt"])] == ["gnmt", "rnn"]
    with pytest.raises(UserError, match="no family 'gru'"):
        families_named(["gru"])
    with pytest.raises(UserError, match="--trials is 1 to"):
        Table2(tmp_path, trials=len(SETTINGS) + 1)


def test_the_command_renders_a_record(tmp_path: Path) -> None:
    entry = {"loss": 1.0, "bleu": 20.0, "signature": "s", "flops": 1e15, "seconds": 9, "parameters": 5, "active": 5}
    line = {**entry, "learning_rate": 0.001, "dropout": 0.1, "batch_tokens": 4096}
    Record(tmp_path / RECORD).add(Run("rnn", 1e15, 1, 0), line)
    done = CliRunner().invoke(app, ["table2", "--render", "--out", str(tmp_path), "--budgets", "1e15", "--json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == len(FAMILIES) + 1
    assert [row["bleu"] for row in rows if row["family"] == "rnn"] == [[20.0]]
    assert not (tmp_path / "runs").exists() and (tmp_path / "bleu-flops.png").is_file()
    wrong = CliRunner().invoke(app, ["table2", "--render", "--out", str(tmp_path), "--budgets", "many"])
    assert wrong.exit_code == 2 and "--budgets many" in wrong.output
