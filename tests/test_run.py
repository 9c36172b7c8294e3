"""From a recipe to a model folder: what may be resumed, what is refused, and what is left behind."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

import harken
from harken import plan
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.training import device
from harken.training.checkpoints import load_checkpoint
from harken.training.folder import RunLock
from harken.training.log import read_metrics

RECIPE = """
[data]
source = "{home}/mine.en"
target = "{home}/mine.fr"
valid_size = 4
[tokenizer]
kind = "word"
[model]
architecture = "transformer"
layers = 1
width = 8
heads = 2
feedforward = 8
[train]
max_steps = 4
batch_tokens = 64
validate_every = 2
checkpoint_every = 2
precision = "float32"
device = "cpu"
workers = 1
"""


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Any]:
    """Train the recipe above into the folder `out`, with overrides."""
    (tmp_path / "mine.en").write_text("".join(f"one {i % 7} two\n" for i in range(30)))
    (tmp_path / "mine.fr").write_text("".join(f"un {i % 7} deux\n" for i in range(30)))
    (tmp_path / "mine.toml").write_text(RECIPE.format(home=tmp_path))

    def call(*overrides: str, **options: Any) -> Any:
        options = {"progress": False, **options}
        return harken.train(tmp_path / "mine.toml", tmp_path / "out", overrides=overrides, **options)

    return call


def step(folder: Path) -> int:
    found = load_checkpoint(folder)
    assert found is not None
    return found[1].step


def test_the_folder_holds_what_the_design_says(train: Callable, tmp_path: Path) -> None:
    translator = train()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "card.md",
        "checkpoint.previous.safetensors",
        "checkpoint.safetensors",
        "data.json",
        "digests.json",
        "metrics.jsonl",
        "model.safetensors",
        "recipe.toml",
        "tokenizer.json",
    ]
    assert translator.folder == tmp_path / "out"
    resolved = load_recipe(tmp_path / "out" / "recipe.toml").train
    assert (resolved.device, resolved.precision, resolved.workers, resolved.threads) == ("cpu", "float32", 1, 1)


def test_what_is_trained_is_said_first(train: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    translator = train(progress=True)
    parameters = sum(parameter.numel() for parameter in translator.model.parameters())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("mine: 2")
    assert lines[0].endswith("for validation, source -> target")
    assert lines[1] == f"transformer: {parameters:,} parameters, {translator.source.size} word pieces"
    assert lines[2] == "cpu, float32, 1 process x 1 thread"
    assert lines[3].startswith("fitted to the budget of about 4 updates: learning_rate 0.004, warmup_steps 1")
    assert lines[4] == "training"


def test_skipped_lines_are_told(train: Callable, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open(tmp_path / "mine.en", "a") as lines:
        lines.write("\n\n")
    with open(tmp_path / "mine.fr", "a") as lines:
        lines.write("rien\nrien\n")
    train(progress=True)
    assert "skipped 2 lines: " in capsys.readouterr().out
    assert "| lines skipped | 2 " in (tmp_path / "out" / "card.md").read_text()


def test_a_folder_in_use_is_refused(train: Callable, tmp_path: Path) -> None:
    train()
    with pytest.raises(UserError, match=r"out is not empty; train into a new folder, continue .*resume=True"):
        train()
    assert step(tmp_path / "out") == 4


def test_a_folder_of_something_else_is_refused_even_with_resume(train: Callable, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="is not empty"):
        train(resume=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_a_run_killed_before_its_recipe_was_written_can_be_resumed(train: Callable, tmp_path: Path) -> None:
    train()
    whole = (tmp_path / "out" / "model.safetensors").read_bytes()
    for path in (tmp_path / "out").iterdir():
        if path.name != "tokenizer.json":
            path.unlink()
    (tmp_path / "out" / ".recipe.toml.0123abcd.tmp").write_text("[da")
    train(resume=True)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == whole


def test_resuming_what_never_began_begins(train: Callable, tmp_path: Path) -> None:
    train(resume=True)
    assert step(tmp_path / "out") == 4


@pytest.mark.parametrize(
    ("override", "section"),
    [
        ("model.width=16", "model"),
        ("tokenizer.size=9", "tokenizer"),
        ("search.beam=2", "search"),
    ],
)
def test_another_recipe_is_refused(train: Callable, override: str, section: str) -> None:
    train()
    with pytest.raises(UserError) as caught:
        train(override, resume=True)
    assert f"was started with another [{section}] than this recipe has; resume with the recipe" in str(caught.value)
    key, value = override.split("=")
    assert re.search(rf"\(first difference: {key} = \w+, not {value}\)", str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "found"),
    [
        ("train.learning_rate=0.5", "train.learning_rate = 0.004, not 0.5"),
        ("train.clip_norm=none", "train.clip_norm = 1.0, not None"),
        ("train.seed=2", "train.seed = 1, not 2"),
        ("train.workers=2", "train.workers = 1, not 2"),
    ],
)
def test_other_training_is_refused_not_ignored(train: Callable, override: str, found: str) -> None:
    train()
    with pytest.raises(UserError) as caught:
        train(override, resume=True)
    assert f"was started with {found}; resume with the old value, or train into a new folder" in str(caught.value)


def test_what_was_left_open_stays_as_it_was_decided(train: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    train("train.max_steps=2")
    monkeypatch.setattr(device, "choose_workers", lambda: 7)
    resumed = train("train.device=auto", "train.precision=auto", "train.workers=none", resume=True)
    assert resumed.recipe.train.workers == 1


def test_a_finished_run_is_only_loaded(train: Callable, tmp_path: Path) -> None:
    first = train()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    again = train(resume=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert all(
        torch.equal(one, other) for one, other in zip(first.model.parameters(), again.model.parameters(), strict=True)
    )


def test_a_larger_budget_goes_on_and_is_written_down(train: Callable, tmp_path: Path) -> None:
    train()
    train("train.max_steps=8", resume=True)
    assert step(tmp_path / "out") == 8
    assert [line["step"] for line in read_metrics(tmp_path / "out") if line["kind"] == "valid"] == [2, 4, 6, 8]
    assert load_recipe(tmp_path / "out" / "recipe.toml").train.max_steps == 8
    assert "| updates | 8, best at " in (tmp_path / "out" / "card.md").read_text()


def test_overrides_go_with_a_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="overrides apply to the name or file of a recipe"):
        harken.train(load_recipe("phrasebook-rnn"), tmp_path / "out", overrides=["train.max_steps=1"])


def test_a_finished_run_without_its_checkpoint_is_loaded_not_retrained(train: Callable, tmp_path: Path) -> None:
    train()
    out = tmp_path / "out"
    for path in out.glob("checkpoint*"):
        path.unlink()
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert train(resume=True).folder == out
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_an_unfinished_run_without_a_checkpoint_asks_for_restart(train: Callable, tmp_path: Path) -> None:
    train()
    out = tmp_path / "out"
    model = (out / "model.safetensors").read_bytes()
    for path in (*out.glob("checkpoint*"), out / "card.md"):
        path.unlink()
    with pytest.raises(UserError, match=r"without a checkpoint, so it cannot be resumed; .* restart=True"):
        train(resume=True)
    assert (out / "model.safetensors").read_bytes() == model
    train(restart=True)
    assert (out / "model.safetensors").read_bytes() == model and step(out) == 4


def test_restart_leaves_files_of_others_alone(train: Callable, tmp_path: Path) -> None:
    train()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        train(restart=True)
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_second_process_is_refused(train: Callable, tmp_path: Path) -> None:
    train()
    with RunLock(tmp_path / "out"), pytest.raises(UserError, match=rf"in use by process {os.getpid()} on"):
        train("train.max_steps=6", resume=True)
    assert train("train.max_steps=6", resume=True) and step(tmp_path / "out") == 6


def test_a_run_that_the_clock_cuts_short_says_so(train: Callable, tmp_path: Path) -> None:
    train("train.max_steps=100000", "train.max_minutes=0.005")
    card = (tmp_path / "out" / "card.md").read_text()
    assert "| ended by | the time limit of 0.005 minutes at step" in card and "planned 100,000 steps" in card


def test_a_home_folder_is_expanded_once(train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert train is not None  # it wrote the recipe
    harken.train(tmp_path / "mine.toml", "~/runs/x", progress=False)
    names = {path.name for path in (tmp_path / "home" / "runs" / "x").iterdir()}
    assert {"recipe.toml", "model.safetensors", "card.md", "metrics.jsonl", "tokenizer.json"} <= names
    assert not (tmp_path / "~").exists()


def test_a_damaged_log_does_not_stop_a_resumed_run(train: Callable, tmp_path: Path) -> None:
    train("train.max_steps=2")
    with open(tmp_path / "out" / "metrics.jsonl", "a") as lines:
        lines.write('{"kind": "valid", "step": 2, "loss": "low", "best": true}\n{"kind": "valid", "best": true}\n')
    train(resume=True)
    assert step(tmp_path / "out") == 4


def test_a_negative_beta_is_refused(train: Callable) -> None:
    with pytest.raises(UserError, match=r"train.betas\[0\] is -0.9 .*, but must be at least 0"):
        train("train.betas=[-0.9, 0.98]")


def test_a_run_that_was_killed_while_it_planned_keeps_its_precision(
    train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` times a child process, whose answer may differ from one minute to the next."""
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 2.0)
    kept = tmp_path / "kept"

    def killed(*_: Any, **__: Any) -> None:
        shutil.copytree(tmp_path / "out", kept)  # what a kill leaves; an exception tidies up
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(plan, "fit_training", killed)
        with pytest.raises(RuntimeError, match="killed"):
            train("train.precision=auto")
    assert not (tmp_path / "out").exists()
    kept.rename(tmp_path / "out")
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 1.0)
    assert train("train.precision=auto", resume=True).recipe.train.precision == "bfloat16"


def test_a_recipe_cannot_be_changed() -> None:
    recipe = load_recipe("phrasebook-transformer")
    for table, key in ((recipe, "task"), (recipe.train, "max_steps"), (recipe.model, "width"), (recipe.data, "size")):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(table, key, getattr(table, key))


@pytest.mark.parametrize("moment", ["plan.fit_training", "run.record_data", "run.Trainer", "training.loop.MetricsLog"])
def test_a_start_that_fails_leaves_nothing_behind(
    train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise UserError("no space left")

    with monkeypatch.context() as patched, pytest.raises(UserError, match="no space left"):
        patched.setattr(f"harken.{moment}", fail)
        train()
    assert not (tmp_path / "out").exists()
    assert train() and step(tmp_path / "out") == 4


def test_a_start_from_a_folder_without_a_run_leaves_nothing_behind(train: Callable, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").mkdir()
    for _ in range(2):
        with pytest.raises(UserError, match=r"train.branch_from: there is no checkpoint in"):
            train(f"train.branch_from={tmp_path / 'elsewhere'}")
        assert not any((tmp_path / "out").iterdir())


@pytest.mark.parametrize("name", ["C:\\runs\\x", "aux", "a:b", "x. ", "*?", "-x", "ünï", "a" * 255])
def test_any_name_of_a_folder_works(train: Callable, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    harken.train(tmp_path / "mine.toml", out, overrides=["train.max_steps=1"], progress=False)
    assert harken.load(out, "cpu").folder == out


@pytest.mark.parametrize("out", ["mine.en/x", "a" * 256, "/proc/nothing/x", "x\0y"])
def test_a_folder_that_cannot_be_made_is_one_sentence(train: Callable, tmp_path: Path, out: str) -> None:
    with pytest.raises(UserError, match=r"cannot be|choose another") as caught:
        harken.train(tmp_path / "mine.toml", tmp_path / out, progress=False)
    assert "\n" not in str(caught.value)


def test_a_resumed_run_keeps_the_precision_that_was_measured(
    train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 2.0)
    train("train.precision=auto", "train.max_steps=2")
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 1.0)
    assert train("train.precision=auto", "train.max_steps=4", resume=True).recipe.train.precision == "bfloat16"
    monkeypatch.setattr(device, "bfloat16_speedup", lambda: 0.0)  # another machine, where it crashes
    sentence = r"out cannot be resumed here as it began: train\.precision bfloat16 crashes on this CPU; resume it on"
    with pytest.raises(UserError, match=sentence):
        train("train.precision=auto", "train.max_steps=6", resume=True)
    assert step(tmp_path / "out") == 4


def test_a_run_of_a_device_that_is_not_here_is_not_resumed(train: Callable, tmp_path: Path) -> None:
    train("train.max_steps=2")
    recipe = tmp_path / "out" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace('device = "cpu"', 'device = "cuda:77"'))
    with pytest.raises(UserError, match=r"cannot be resumed here as it began: train\.device 'cuda:77' needs"):
        train("train.device=auto", resume=True)


def test_a_resumed_run_keeps_its_kernels(train: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    train("train.max_steps=2")
    monkeypatch.delenv("HARKEN_KERNELS")
    with pytest.raises(UserError, match=r"was trained with HARKEN_KERNELS=off, which is not set now; set it, or train"):
        train(resume=True)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert train(resume=True) and step(tmp_path / "out") == 4
