"""Sweeps with small models: trials are ordinary runs, what is finished is not trained again, failures are recorded."""

import json
import math
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.errors import UserError
from harken.run_folders.reading import read_run
from harken.sweeps import local
from harken.sweeps.sweep import inferred_recipe
from harken.sweeps.trials import make_plan
from harken.training.loop import Trainer
from harken.training.weights import load_tensors

RECIPE = "phrasebook-tag"
SMALL = [
    *("data.size=60", "train.batch_tokens=100", "model.width=8", "model.embedding=8", "train.max_steps=9"),
    *("train.max_epochs=none", "train.max_minutes=none", "train.average=0.0", "train.warmup_steps=0"),
    *("train.workers=1", "train.threads=1", "train.device=cpu", "train.precision=float32", "train.validate_every=1"),
    "train.checkpoint_every=2",
]
CELLS = {"model.cell": ["lstm", "gru"]}


def run(out: Path, **options: Any) -> harken.Sweep:
    return harken.sweep(RECIPE, out, overrides=[*SMALL, *options.pop("overrides", ())], progress=False, **options)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def changes(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.parent.name.startswith("seed-")}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> harken.Sweep:
    return run(tmp_path_factory.mktemp("sweeps") / "cells", grid=CELLS, seeds=2, jobs=2)


def test_every_trial_is_an_ordinary_run(swept: harken.Sweep, tmp_path: Path) -> None:
    folders = [trial.folder.relative_to(swept.folder) for trial in swept.trials]
    assert [str(folder) for folder in folders] == [
        *("cell=lstm/seed-1", "cell=gru/seed-1", "cell=lstm/seed-2", "cell=gru/seed-2")
    ]
    trial = swept.trials[-1]
    harken.train(RECIPE, tmp_path / "own", overrides=[*SMALL, "model.cell=gru", "train.seed=2"], progress=False)
    assert weights(trial.folder) == weights(tmp_path / "own") != weights(swept.trials[1].folder)
    assert harken.load(trial.folder).tag("the cat sleeps").tags


def test_the_table_has_means_and_deviations_by_validation_and_the_test_part(swept: harken.Sweep) -> None:
    rows = swept.summaries()
    for row in rows:
        scores = [read_run(trial.folder).score for trial in swept.plan.of(row.name)]
        assert list(row.scores.values()) == scores and row.mean == pytest.approx(sum(map(float, scores)) / 2)  # type: ignore[arg-type]
        assert row.deviation == pytest.approx(abs(scores[0] - scores[1]) / math.sqrt(2))  # type: ignore[operator]
        assert len(row.test["accuracy"]) == 2
    assert rows[0].mean >= rows[1].mean if swept.sign > 0 else rows[0].mean <= rows[1].mean
    assert swept.best == rows[0].name and swept.baseline == "cell=lstm"
    other = next(row for row in rows if row.name == "cell=gru")
    assert other.paired is not None and other.paired.pairs == 2 and other.p_adjusted == other.paired.p_value
    assert other.paired.difference == pytest.approx(
        other.mean - next(row for row in rows if row.name == "cell=lstm").mean
    )
    table = str(swept).splitlines()
    assert len(table) == 3 and "±" in table[1] and "p (Holm)" in table[0] and "baseline" in str(swept)


def test_results_as_frame_files_and_figures(swept: harken.Sweep, tmp_path: Path) -> None:
    frame = swept.frame()
    assert list(frame["model.cell"]) == ["lstm", "gru", "lstm", "gru"] and list(frame["seed"]) == [1, 1, 2, 2]
    assert set(frame["state"]) == {"finished"} and frame["parameters"].gt(0).all()
    lines = (swept.folder / "sweep.csv").read_text().splitlines()
    assert len(lines) == 5 and lines[0].startswith("name,model.cell,seed,state,")
    stored = json.loads((swept.folder / "sweep.json").read_text())
    assert stored["best"] == swept.best and [row["n"] for row in stored["settings"]] == [2, 2]
    picture = swept.plot()
    (figure,) = picture.figures()
    series = figure.panels[0].series[0]  # type: ignore[union-attr]
    assert series.low is not None and len(series.x) == 9
    assert all(low <= y <= high for low, y, high in zip(series.low, series.y, series.high, strict=True))  # type: ignore[arg-type]
    for ending in (".svg", ".png", ".html"):
        assert picture.save(tmp_path / f"curves{ending}").stat().st_size > 1000


def test_without_pandas_a_frame_is_a_dict_of_columns(swept: harken.Sweep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.run_folders.frame.find_spec", lambda name: None)
    assert swept.frame()["model.cell"] == ["lstm", "gru", "lstm", "gru"]
    columns = harken.runs(swept.folder)
    assert sorted(columns["train.seed"]) == [1, 1, 2, 2] and columns["state"] == ["finished"] * 4


def test_runs_are_a_frame_with_the_keys_that_differ(swept: harken.Sweep) -> None:
    frame = harken.runs(swept.folder)
    assert {"state", "metric", "score", "parameters", "seconds", "model.cell", "train.seed"} <= set(frame.columns)
    assert "model.width" not in frame.columns
    other = swept.folder / "other"
    other.mkdir()
    (other / "recipe.toml").write_text('task = "classify"\n[data]\ncorpus = "opinions"\n')
    (other / "metrics.jsonl").write_text("")
    assert len(harken.runs(swept.folder)) == len(frame) + 1
    assert set(harken.runs(swept.folder).columns) == set(frame.columns)  # keys of another job are not between them
    shutil.rmtree(other)
    with pytest.raises(UserError, match="does not exist"):
        harken.runs(swept.folder / "nothing")


def test_the_same_sweep_again_trains_nothing_and_more_values_and_seeds_are_added(swept: harken.Sweep) -> None:
    before = changes(swept.folder)
    again = run(swept.folder, grid=CELLS, seeds=2)
    assert changes(swept.folder) == before and str(again) == str(swept)
    more = run(swept.folder, grid={"model.cell": ["lstm", "gru", "rnn"]}, seeds=2, test=False)
    after = changes(swept.folder)
    assert {path: time for path, time in after.items() if path in before} == before
    assert len(more.trials) == 6 and (swept.folder / "cell=rnn" / "seed-2" / "card.md").is_file()


def test_the_folder_of_another_sweep_is_refused(swept: harken.Sweep, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds a sweep of another recipe"):
        run(swept.folder, grid=CELLS, overrides=["model.dropout=0.5"])
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty and holds no sweep"):
        run(tmp_path, grid=CELLS)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("model.cell=lstm,gur", 'model.cell is "gur"'),
        ("model.wdith=8,16", "did you mean model.width?"),
        ("model.layers=1,2,many", "but must be an integer"),
        ("train.seed=1,2", "--seeds N"),
        ("data.size=61", "is given twice"),
    ],
)
def test_a_typo_in_any_combination_is_refused_before_the_first_trial(tmp_path: Path, option: str, reason: str) -> None:
    sets = [part for override in (*SMALL, option) for part in ("--set", override)]
    done = CliRunner().invoke(app, ["sweep", RECIPE, "--out", str(tmp_path / "out"), *sets])
    assert done.exit_code == 2 and reason in done.stderr
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="no setting 'cell=rnn' to be the baseline; choose from cell=lstm, cell=gru"):
        run(tmp_path / "out", grid=CELLS, baseline="cell=rnn")


def test_failed_trials_are_recorded_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Trainer.run

    def fail(self: Trainer, resume: bool = False) -> Any:
        if self.config.seed == 1:
            raise UserError("the disk is full; free some space")
        if self.config.seed == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(self, resume)

    lines: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "run", fail)
        failed = run(tmp_path / "out", seeds=3, report=lines.append)
    errors = [trial.error for trial in failed.trials]
    assert errors[0] == "the disk is full; free some space" and "ended by SIGKILL" in errors[1] and not errors[2]
    assert len(lines) == 3 and lines[0] == "1 of 3: recipe, seed 1: the disk is full; free some space"
    (row,) = failed.summaries()
    assert (row.failed, list(row.scores)) == (2, [3]) and "1, 2 failed" in str(failed)
    assert list(failed.frame()["state"]) == ["failed", "failed", "finished"]
    again = run(tmp_path / "out", seeds=3)
    assert [trial.error for trial in again.trials] == ["", "", ""] and len(again.summaries()[0].scores) == 3


def test_a_sweep_without_any_result_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise UserError("the disk is full; free some space")

    monkeypatch.setattr(Trainer, "run", fail)
    with pytest.raises(UserError, match=r"no trial of .* has a score: the disk is full; free some space"):
        run(tmp_path / "out", seeds=2)


def test_halving_leaves_ordinary_runs_and_the_best_setting(tmp_path: Path) -> None:
    rates = ["0.003", "0.0003", "0.00003"]
    halved = run(tmp_path / "out", grid={"train.learning_rate": [float(rate) for rate in rates]}, seeds=1, halving=True)
    rows = halved.summaries()
    assert [row.share for row in rows] == pytest.approx([1.0, 1 / 3, 1 / 3])
    steps = {row.name: halved.plan.of(row.name)[0].run.step for row in rows}
    assert sorted(steps.values()) == [3, 3, 9] and steps[halved.best] == 9
    third = {row.name: halved.score(halved.plan.of(row.name)[0], 1 / 3) * halved.sign for row in rows}
    assert third[halved.best] == max(third.values())
    best = halved.plan.of(halved.best)[0]
    harken.train(RECIPE, tmp_path / "whole", overrides=[*SMALL, *best.overrides], progress=False)
    whole, resumed = (
        load_tensors(folder / "checkpoint.safetensors")[0] for folder in (tmp_path / "whole", best.folder)
    )
    assert all(bool((whole[name] == resumed[name]).all()) for name in whole)
    before = changes(halved.folder)
    again = run(tmp_path / "out", grid={"train.learning_rate": [float(rate) for rate in rates]}, seeds=1, halving=True)
    assert changes(halved.folder) == before and again.best == halved.best
    assert "33%" in str(halved) and "100%" in str(halved)


def test_ranges_are_drawn_and_told(tmp_path: Path) -> None:
    lines: list[str] = []
    grid = {"train.learning_rate": "1e-3..1e-2:log"}
    drawn = run(tmp_path / "out", grid=grid, seeds=1, trials=2, report=lines.append, test=False)
    assert len(drawn.plan.settings) == 2
    rates = [trial.run.recipe["train"]["learning_rate"] for trial in drawn.trials]
    assert all(1e-3 <= rate <= 1e-2 for rate in rates) and rates[0] != rates[1]


def test_each_of_several_trials_has_its_share_of_the_machine(
    swept: harken.Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = local.Plan(Path("out"), RECIPE, [], {}, [1], "")
    monkeypatch.setattr(local, "available_cores", lambda: 8)
    assert local.machine_overrides(plan.base_recipe.train, jobs=1, slot=0) == []
    assert local.machine_overrides(plan.base_recipe.train, jobs=3, slot=2) == ["train.workers=2"]
    assert local.machine_overrides(swept.plan.base_recipe.train, jobs=3, slot=2) == []  # the recipe says it
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert local.machine_overrides(plan.base_recipe.train, jobs=3, slot=2) == ["train.device=cuda:0"]


def test_a_table_in_memory_is_swept(tmp_path: Path) -> None:
    table = {"tokens": [["the", word, "sleeps"] for word in "abcdefghij"], "tags": [["DET", "NOUN", "VERB"]] * 10}
    results = harken.sweep(
        RECIPE, tmp_path / "out", data=table, grid=CELLS, seeds=1, overrides=SMALL[1:], progress=False, test=False
    )
    assert [len(row.scores) for row in results.summaries()] == [1, 1]


def test_the_command_prints_the_table(swept: harken.Sweep, tmp_path: Path) -> None:
    sets = [part for override in (*SMALL, "model.cell=lstm,gru") for part in ("--set", override)]
    command = ["sweep", RECIPE, "--out", str(swept.folder), "--seeds", "2", *sets]
    done = CliRunner().invoke(app, [*command, "--plot", str(tmp_path / "curves.svg")])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[0].startswith("setting\tn\tvalidation ")
    assert f"Chosen by validation: {swept.best}" in done.stderr and (tmp_path / "curves.svg").is_file()
    report = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert report["baseline"] == "cell=lstm" and {row["name"] for row in report["settings"]} == {
        "cell=lstm",
        "cell=gru",
    }


def test_translations_of_the_test_part_are_kept_and_compared(tmp_path: Path) -> None:
    small = [
        *("data.size=100", "model.width=16", "model.heads=2", "model.feedforward=16", "train.max_steps=2"),
        *("train.validate_sentences=2", "search.beam=1", *(key for key in SMALL[5:] if "validate_every" not in key)),
    ]
    options: dict[str, Any] = {"overrides": small, "grid": {"model.layers": [1, 2]}, "seeds": 1, "progress": False}
    first = harken.sweep("phrasebook-transformer", tmp_path / "out", test=False, jobs=2, **options)
    assert first.bootstrap() == [] and not first.trials[0].test
    (other,) = set(first.plan.settings) - {first.best}
    both = harken.sweep("phrasebook-transformer", tmp_path / "out", baseline=other, jobs=2, **options)
    (test,) = both.bootstrap()
    assert (both.best, test["seed"], test["split"]) == (first.best, 1, "test")
    scores = [both.plan.of(name)[0].test["bleu"] for name in (other, first.best)]
    assert [test["first"], test["other"]] == pytest.approx(scores, abs=1e-6) and 0 < test["p"] <= 1
    assert (tmp_path / "out" / "layers=1" / "seed-1" / "outputs" / "test.jsonl").is_file()


def test_ten_settings_are_drawn_by_default_and_data_is_taken_for_a_recipe(tmp_path: Path) -> None:
    plan = make_plan(RECIPE, tmp_path / "out", ["train.learning_rate=1e-3..1e-2:log", "model.cell=lstm,gru"], seeds=2)
    assert (len(plan.settings), len(plan.trials)) == (10, 20) and "--trials N" in plan.notes[0]
    assert plan.trials[0].overrides[-1] == "train.seed=1" and not (tmp_path / "out").exists()
    rows = [f"the {word} is {kind},{kind}" for word in "abcdefghij" for kind in ("good", "bad")]
    (tmp_path / "texts.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    recipe = inferred_recipe(tmp_path / "texts.csv", tmp_path / "out")
    assert recipe == tmp_path / "out.toml" and inferred_recipe(RECIPE, tmp_path / "out") == RECIPE
    inferred = make_plan(recipe, tmp_path / "out", ["train.learning_rate=0.001,0.01"], seeds=1)
    assert (
        list(inferred.settings) == ["learning_rate=0.001", "learning_rate=0.01"]
        and 'task = "classify"' in inferred.base
    )
