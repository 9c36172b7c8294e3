"""Run folders from outside: states, scores, curves and comparisons, also of broken and running folders."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.errors import UserError
from harken.run_folders.comparing import compare_runs, outputs_of
from harken.run_folders.curves import RunCurves, short_names, thinned
from harken.run_folders.reading import find_runs, monitored, read_run
from harken.training import checkpoints
from harken.training.weights import save_tensors


def make(folder: Path, bleu: tuple[float, ...] = (10.0, 30.0, 20.0), done: bool = True, **changes: Any) -> Path:
    """A run folder as training leaves it, without a model that can be loaded."""
    folder.mkdir(parents=True)
    values = {"width": 64, "rate": 0.002, "steps": 300, **changes}
    (folder / "recipe.toml").write_text(
        f'task = "translate"\n[model]\narchitecture = "transformer"\nwidth = {values["width"]}\n'
        f"[train]\nmax_steps = {values['steps']}\nlearning_rate = {values['rate']}\n"
    )
    lines: list[dict[str, Any]] = []
    best = 0.0
    for number, score in enumerate(bleu, start=1):
        step = 100 * number
        rates = {"learning_rate": 1e-3 / number, "tokens": 5000, "tokens_per_second": 1000.0 + number}
        lines.append({"kind": "train", "step": step, "epoch": 0, "loss": 5 / number, **rates, "seconds": step / 2})
        found = {"loss": 6 / number, "bleu": score, "best": score > best, "seconds": step / 2 + 1}
        lines.append({"kind": "valid", "step": step, **found})
        best = max(best, score)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    save_tensors(folder / "model.safetensors", {"weight": torch.tensor([best])})
    (folder / "checkpoint.safetensors").touch()
    if done:
        (folder / "card.md").write_text("# a run\n")
    return folder


def invoke(*command: object) -> Any:
    return CliRunner().invoke(app, [str(part) for part in command])


def test_a_finished_run(tmp_path: Path) -> None:
    run = read_run(make(tmp_path / "a"))
    assert (run.state, run.task, run.model, run.metric, run.score) == (
        "finished",
        "translate",
        "transformer",
        "bleu",
        30,
    )
    assert run.best is not None and run.best["step"] == 200
    assert (run.step, run.seconds, run.tokens_per_second, run.done) == (300, 151.0, 1002.0, 1.0)


def test_states(tmp_path: Path) -> None:
    stopped = make(tmp_path / "stopped", done=False, steps=1200)
    assert (read_run(stopped).state, read_run(stopped).done) == ("stopped", 0.25)
    (stopped / ".lock").write_text(json.dumps({"pid": os.getpid(), "host": socket.gethostname()}))
    assert read_run(stopped).state == "running"
    (stopped / ".lock").write_text(json.dumps({"pid": 2**22 + 1, "host": socket.gethostname()}))  # killed
    assert read_run(stopped).state == "stopped"
    (stopped / ".lock").write_text(json.dumps({"pid": 1, "host": "elsewhere"}))
    assert read_run(stopped).state == "running"
    os.utime(stopped / ".lock", (0, 0))
    os.utime(stopped / "metrics.jsonl", (0, 0))
    assert read_run(stopped).state == "stopped"
    (stopped / "checkpoint.safetensors").rename(stopped / "checkpoint.previous.index.json")  # of FSDP
    assert read_run(stopped).state == "stopped" and checkpoints.has_checkpoint(stopped)
    started = tmp_path / "started"
    started.mkdir()
    (started / "recipe.toml").write_text('task = "tag"\n')
    assert (read_run(started).state, read_run(started).score, read_run(started).step) == ("started", None, 0)


def test_damaged_folders_are_listed_with_the_reason(tmp_path: Path) -> None:
    make(tmp_path / "runs" / "good")
    (make(tmp_path / "runs" / "toml") / "recipe.toml").write_bytes(b"\xff\xfe = [")
    (make(tmp_path / "runs" / "model") / "model.safetensors").unlink()
    broken = make(tmp_path / "runs" / "metrics")
    (broken / "metrics.jsonl").write_bytes(b'{"kind": "train", "step": "x"}\n[1]\n{"kind": "valid", "bleu": []}\n\xff')
    found = {run.folder.name: run for run in find_runs(tmp_path)}
    assert {name: (run.state, run.problem) for name, run in found.items()} == {
        "good": ("finished", ""),
        "toml": ("damaged", "recipe.toml cannot be read"),
        "model": ("damaged", "model.safetensors is missing"),
        "metrics": ("finished", ""),
    }
    assert found["metrics"].score is None
    result = invoke("runs", tmp_path)
    assert result.exit_code == 0 and "damaged: recipe.toml cannot be read" in result.output
    rows = json.loads(invoke("runs", tmp_path, "--json").output)
    assert {row["state"] for row in rows} == {"finished", "damaged"} and len(rows) == 4


def test_runs_below_a_run_and_hidden_ones_are_not_listed(tmp_path: Path) -> None:
    make(tmp_path / "a")
    make(tmp_path / "a" / "elmo")
    make(tmp_path / ".hidden" / "b")
    make(tmp_path / "some" / "deep" / "c")
    assert {run.folder.name for run in find_runs(tmp_path)} == {"a", "c"}
    assert [run.folder.name for run in find_runs(tmp_path / "a")] == ["a"]
    (tmp_path / "empty").mkdir()
    assert invoke("runs", tmp_path / "empty").exit_code == 0
    assert invoke("runs", tmp_path / "nowhere").exit_code == 2


@pytest.mark.parametrize(
    ("entries", "metric"),
    [
        ([{"loss": 2.0, "accuracy": 0.1, "best": True}, {"loss": 1.0, "accuracy": 0.1, "best": False}], "accuracy"),
        ([{"loss": 2.0, "accuracy": 0.3, "best": True}, {"loss": 1.0, "accuracy": 0.2, "best": True}], "loss"),
        (
            [{"loss": 1.0, "perplexity": 2.7, "best": True}, {"loss": 2.0, "perplexity": 7.4, "best": False}],
            "perplexity",
        ),
        ([{"loss": 1.0, "mine": 3.0, "best": True}, {"loss": 0.5, "mine": 4.0, "best": True}], "loss"),
        ([], None),
    ],
)
def test_the_monitored_metric_is_found_by_the_marks(entries: list[dict[str, Any]], metric: str | None) -> None:
    assert monitored(entries) == metric


def test_curves_of_several_runs(tmp_path: Path) -> None:
    runs = [read_run(make(tmp_path / name / "run", done=False)) for name in ("a", "b")]
    (figure,) = RunCurves(runs).figures()
    assert [panel.title for panel in figure.panels] == ["Loss", "bleu", "Learning rate", "Speed"]  # type: ignore[union-attr]
    loss = figure.panels[0]
    assert [one.label for one in loss.series] == ["a/run", "a/run, validation", "b/run", "b/run, validation"]  # type: ignore[union-attr]
    assert list(loss.series[0].y) == [5.0, 2.5, 5 / 3] and loss.series[1].dashed  # type: ignore[union-attr]
    (figure,) = RunCurves(runs, "tokens").figures()
    assert list(figure.panels[1].series[0].x) == [0.005, 0.01, 0.015]  # type: ignore[union-attr]
    (figure,) = RunCurves(runs, "minutes").figures()
    assert list(figure.panels[2].series[0].x) == [50 / 60, 100 / 60, 150 / 60]  # type: ignore[union-attr]


def test_plot_writes_and_refuses(tmp_path: Path) -> None:
    folder = make(tmp_path / "a")
    for ending in ("svg", "png", "html"):
        assert invoke("plot", folder, "--out", tmp_path / f"curves.{ending}").exit_code == 0
        assert (tmp_path / f"curves.{ending}").stat().st_size > 5000
    assert "Learning rate" in invoke("plot", folder).output
    assert json.loads(invoke("plot", folder, "--json").output)["title"] == "a"
    empty = make(tmp_path / "empty", ())
    for command in (
        ("plot", empty),
        ("plot", tmp_path / "nowhere"),
        ("plot", tmp_path),
        ("plot", folder, "--x", "seconds"),
        ("plot", folder, "--out", tmp_path / "curves.pdf"),
        ("compare", folder),
        ("compare", folder, tmp_path / "nowhere"),
    ):
        assert invoke(*command).exit_code == 2, command
    assert invoke("plot", folder, empty).exit_code == 0


def test_comparison_shows_keys_and_scores(tmp_path: Path) -> None:
    runs = [read_run(make(tmp_path / "a")), read_run(make(tmp_path / "b", (12.0, 15.0), width=128))]
    found = compare_runs(runs)
    assert found.names == ["a", "b"] and found.keys == [("model.width", ["64", "128"])]
    rows = dict(found.rows)
    assert rows["validation bleu"] == ["30", "15"] and rows["best at step"] == ["200", "200"]
    assert found.tests == []
    with pytest.raises(UserError, match="nothing to be compared with"):
        compare_runs(runs[:1])


def outputs(folder: Path, lines: list[str], references: list[str]) -> None:
    from harken.run_folders.comparing import model_digest

    head = json.dumps({"digest": model_digest(folder)})
    rows = [json.dumps({"output": a, "reference": b}) for a, b in zip(lines, references, strict=True)]
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "outputs" / "test.jsonl").write_text("\n".join([head, *rows]) + "\n")


def test_outputs_are_tested_in_pairs_and_stale_ones_are_ignored(tmp_path: Path) -> None:
    right = [f"the black cat number {index} sleeps here" for index in range(30)]
    wrong = [line if index % 2 else "something else entirely was said" for index, line in enumerate(right)]
    first, second = make(tmp_path / "a"), make(tmp_path / "b", width=128)
    outputs(first, right, right)
    outputs(second, wrong, right)
    (test,) = compare_runs([read_run(first), read_run(second)]).tests
    assert (test["split"], test["run"], test["first"]) == ("test", "b", pytest.approx(100.0))
    assert test["difference"] < -20 and test["p"] < 0.01 and test["interval"][1] < 0
    assert "p = 0.00" in invoke("compare", first, second).output
    (equal,) = compare_runs([read_run(first), read_run(first)]).tests
    assert str(equal["interval"]) == "[0.0, 0.0]"
    written = (second / "outputs" / "test.jsonl").read_text()
    (second / "outputs" / "test.jsonl").write_text(written.replace("{", '{"metric": "ter", ', 1))
    assert outputs_of(second) == {} and compare_runs([read_run(first), read_run(second)]).tests == []
    (second / "outputs" / "test.jsonl").write_text(written)
    save_tensors(second / "model.safetensors", {"weight": torch.tensor([3.0])})  # trained anew since
    assert outputs_of(second) == {} and compare_runs([read_run(first), read_run(second)]).tests == []


def test_short_names_and_thinned_curves() -> None:
    assert short_names([Path("a/x"), Path("a/y")]) == ["x", "y"]
    assert short_names([Path("a/x"), Path("a/x")]) == ["x", "x"]
    x, y = thinned(list(range(1000)), [1.0] * 1000)
    assert len(x) == 200 and set(y) == {1.0} and x == sorted(x)


@pytest.mark.slow
def test_outputs_of_classifiers_are_compared_by_exact_matches(tmp_path: Path) -> None:
    short = ["data.size=200", "train.max_steps=3", "train.max_epochs=none", "train.device=cpu", "train.workers=1"]
    narrow = ["model.width=8", "model.embedding=8", "train.threads=1", "train.precision=float32"]
    folders = [tmp_path / name for name in ("a", "b")]
    for seed, folder in enumerate(folders):
        overrides = [*short, *narrow, f"train.seed={seed}"]
        harken.train("opinions-classify", folder, overrides=overrides, progress=False)
    (test,) = json.loads(invoke("compare", *folders, "--split", "test", "--json").stdout)["tests"]
    shares = [json.loads(invoke("evaluate", folder, "--json").stdout)["accuracy"] for folder in folders]
    assert (test["metric"], test["first"], test["other"]) == ("exact match", *(pytest.approx(100 * s) for s in shares))
    head, first, *_ = map(json.loads, (folders[0] / "outputs/test.jsonl").read_text().splitlines())
    assert head["metric"] == "exact" and first.keys() == {"output", "reference"}


def test_runs_of_jobs_without_a_paired_test_are_refused(tmp_path: Path) -> None:
    folders = [make(tmp_path / name) for name in ("a", "b")]
    for folder in folders:
        (folder / "recipe.toml").write_text('task = "regress"\n')
    done = invoke("compare", *folders, "--split", "test")
    assert done.exit_code == 2 and "whose outputs --split does not compare" in done.stderr
