"""Fine-tuning of a translator: its start, rehearsal, scores before and after, and models that got worse."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.errors import UserError
from harken.recipe import load_recipe
from harken.recipe.infer import Undecided, infer
from harken.tasks.averaging import average_models
from harken.tasks.translate.corpora.distilling import student_recipe
from harken.tasks.translate.job import JOB
from harken.tasks.translate.preparing import general_corpus
from harken.training.log import read_metrics
from harken.training.weights import load_tensors, save_tensors

WORDS = ("black", "old", "small", "red", "good", "new")
MACHINE = ["train.workers=1", "train.threads=1", "train.precision=float32", "train.device=cpu"]
SHORT = [*MACHINE, "train.max_epochs=2", "train.batch_tokens=64", "data.valid_size=6", "data.test_size=0"]


def write_pairs(path: Path, noun: str, translation: str) -> Path:
    lines = [f"the {a} {b} {noun}\tle {translation} {a} {b}" for a in WORDS for b in WORDS]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("adapting")
    write_pairs(folder / "general.tsv", "cat", "chat")
    write_pairs(folder / "own.tsv", "dog", "chien")
    recipe = {
        "data": {"source": str(folder / "general.tsv"), "source_language": "en", "target_language": "fr"},
        "tokenizer": {"kind": "character"},
        "model": {"architecture": "transformer", "width": 16, "heads": 2, "layers": 1, "feedforward": 32},
        "search": {"beam": 3},
        "train": {"max_steps": 5, "batch_tokens": 128, "validate_every": 5},
    }
    harken.train(recipe, folder / "start", overrides=MACHINE, progress=False)
    return folder / "start"


def adapted(start: Path, out: Path, *overrides: str, mix: bool = False) -> Any:
    general = start.parent / "general.tsv" if mix else None
    return harken.train(
        start.parent / "own.tsv", out, start=start, mix=general, overrides=[*SHORT, *overrides], progress=False
    )


def test_tables_are_those_of_the_start_and_rates_are_low(start: Path, tmp_path: Path) -> None:
    own = load_recipe(start / "recipe.toml")
    file = tmp_path / "mine.toml"
    file.write_text(f'[data]\nsource = "{start.parent / "own.tsv"}"\n[adapt]\nstart = "{start}"\n')
    recipe = load_recipe(file, ["search.beam=2", "model.architecture=transformer", "model.dropout=0.3"])
    assert recipe.tokenizer == own.tokenizer and recipe.data.target_language == "fr"
    assert recipe.model == own.model.model_copy(update={"dropout": 0.3}) and recipe.search.beam == 2
    assert recipe.train.learning_rate == 4e-4 and recipe.train.patience == 2  # a tenth of 4e-3
    assert load_recipe(file, ["train.learning_rate=1e-3"]).train.learning_rate == 1e-3


def test_a_run_begins_with_the_weights_of_the_start_and_reports_both(start: Path, tmp_path: Path) -> None:
    recipe = load_recipe(start / "recipe.toml")
    recipe = recipe.model_copy(update={"adapt": type(recipe.adapt)(start=str(start))})
    model = JOB.prepare(recipe, tmp_path / "prepared", False).task.model
    weights = load_tensors(start / "model.safetensors")[0]
    assert all(torch.equal(value, weights[name]) for name, value in model.named_parameters())

    result = adapted(start, tmp_path / "mine", "train.learning_rate=0.01", mix=True)
    assert result.source.encode("the cat") == harken.load(start).source.encode("the cat")
    first, *others = [entry for entry in read_metrics(tmp_path / "mine") if entry["kind"] == "valid"]
    assert first["step"] == 0 and others and {"bleu", "chrf", "general_bleu", "general_chrf"} <= first.keys()
    card = (tmp_path / "mine" / "card.md").read_text()
    assert f"| own pairs, before -> after | BLEU {first['bleu']:.2f} -> " in card and "| general pairs, before" in card
    saved = load_recipe(tmp_path / "mine" / "recipe.toml")  # trains the same run
    harken.train(saved, tmp_path / "again", progress=False)
    one, other = (load_tensors(tmp_path / name / "model.safetensors")[0] for name in ("mine", "again"))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(("share", "count"), [(0.5, 30), (0.25, 10)])
def test_every_epoch_has_its_share_of_general_pairs(start: Path, tmp_path: Path, share: float, count: int) -> None:
    values = {
        "data": {"source": str(start.parent / "own.tsv"), "valid_size": 6},
        "adapt": {"start": str(start), "mix": str(start.parent / "general.tsv"), "mix_share": share},
    }
    recipe = harken.recipe.as_recipe(values, MACHINE)
    task = JOB.prepare(recipe, tmp_path / "prepared", False).task
    epochs = [np.sort(np.concatenate([*task.epoch(number)])) for number in (0, 0, 1)]
    for rows in epochs:
        assert rows[:30].tolist() == list(range(30)) and len(rows) == 30 + count
    assert np.array_equal(epochs[0], epochs[1])
    assert count == 30 or not np.array_equal(epochs[0], epochs[2])


def test_a_model_that_got_worse_is_not_kept(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    task = type(JOB.prepare(load_recipe(start / "recipe.toml"), tmp_path / "prepared", False).task)
    scores, metrics = iter(range(100, 0, -1)), task.metrics
    monkeypatch.setattr(task, "metrics", lambda self, sums: {**metrics(self, sums), "bleu": float(next(scores))})
    own = start.parent / "own.tsv"
    harken.train(own, tmp_path / "mine", start=start, overrides=[*SHORT, "train.validate_every=1"])
    one, other = (load_tensors(folder / "model.safetensors")[0] for folder in (start, tmp_path / "mine"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert "those of the start" in (tmp_path / "mine" / "card.md").read_text()
    assert "those of the start" in "".join(capsys.readouterr())
    assert read_metrics(tmp_path / "mine")[-1]["step"] == 2  # early stopping


@pytest.mark.parametrize("at", [0, 2])
def test_a_resumed_run_ends_the_same(start: Path, tmp_path: Path, ends_the_same: Callable[..., Any], at: int) -> None:
    file = tmp_path / "mine.toml"
    tables = f'[adapt]\nstart = "{start}"\nmix = "{start.parent / "general.tsv"}"\n'
    file.write_text(f'[data]\nsource = "{start.parent / "own.tsv"}"\n{tables}')
    ends_the_same(file, [*SHORT, "train.validate_every=2", "train.checkpoint_every=1"], at)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def adapter(start: Path) -> Path:
    """An adapter of the start, beside it, whose every update was kept."""
    before = content(start)
    rates = ["train.learning_rate=0.02", "train.average=0"]
    adapted(start, start.parent / "adapter", "adapt.rank=2", *rates)
    assert content(start) == before
    return start.parent / "adapter"


def test_an_adapter_is_saved_alone_and_merged_when_it_is_loaded(start: Path, adapter: Path) -> None:
    whole, base = load_tensors(start / "model.safetensors")
    factors, metadata = load_tensors(adapter / "model.safetensors")
    assert metadata["base"] == base["sha256"]
    assert (adapter / "model.safetensors").stat().st_size < (start / "model.safetensors").stat().st_size / 2
    assert read_metrics(adapter)[-1]["best"] and "rank 2" in (adapter / "card.md").read_text()

    model = harken.load(adapter)
    changed = {key.removeprefix("A.") for key in factors if key.startswith("A.")}
    assert len(changed) == 11 and {*factors} == {f"{side}.{name}" for side in "AB" for name in changed}
    for name, value in model.model.named_parameters():
        update = factors[f"B.{name}"] @ factors[f"A.{name}"] if name in changed else torch.zeros(())
        assert (update.abs().max() > 0) == (name in changed)
        torch.testing.assert_close(value, whole[name] + update)
    assert not any(value.requires_grad is False for value in model.model.parameters())
    quantised = model.translate("the red dog", precision="int8")
    assert isinstance(quantised.text, str)


def test_a_merged_folder_needs_no_base(adapter: Path, tmp_path: Path) -> None:
    sources = ["the red dog", "the old new dog"]
    wanted = [result.text for result in harken.load(adapter).translate(sources)]
    asked = ["export", str(adapter), "--format", "harken", "--out", str(tmp_path / "whole")]
    assert CliRunner().invoke(app, asked).exit_code == 0
    model = harken.load(tmp_path / "whole")
    assert "base" not in load_tensors(tmp_path / "whole" / "model.safetensors")[1]
    assert [result.text for result in model.translate(sources)] == wanted
    merged = harken.load(adapter).model.state_dict()
    assert all(torch.equal(value, merged[name]) for name, value in model.model.state_dict().items())
    average_models([adapter, tmp_path / "whole"], tmp_path / "mean")
    for one, other in zip(harken.load(tmp_path / "mean").model.parameters(), model.model.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_base_of_an_adapter_has_to_be_there_unchanged(start: Path, adapter: Path, tmp_path: Path) -> None:
    for folder in (start, adapter):
        shutil.copytree(folder, tmp_path / folder.name)
    recipe, moved = tmp_path / "adapter" / "recipe.toml", tmp_path / "start"
    recipe.write_text(recipe.read_text().replace(str(start), str(tmp_path / "elsewhere" / "start")))
    wanted = harken.load(adapter).model.state_dict()
    assert all(
        torch.equal(value, wanted[name]) for name, value in harken.load(tmp_path / "adapter").model.state_dict().items()
    )

    tensors = load_tensors(moved / "model.safetensors")[0]
    save_tensors(moved / "model.safetensors", {**tensors, "output_weight": tensors["output_weight"] + 1})
    with pytest.raises(UserError, match=r"is an adapter of other weights than those in .*written anew"):
        harken.load(tmp_path / "adapter")
    recipe.write_text(recipe.read_text().replace("elsewhere/", ""))
    with pytest.raises(UserError, match="other weights"):
        harken.train(recipe, tmp_path / "adapter", resume=True, progress=False)
    shutil.rmtree(moved)
    with pytest.raises(UserError, match=r"is not in .*copy that model there, or beside adapter, or set adapt\.start"):
        harken.load(tmp_path / "adapter")


def test_an_adapter_can_start_another_and_an_epoch_goes_on_from_its_merged_weights(
    adapter: Path, tmp_path: Path
) -> None:
    second = adapted(adapter, tmp_path / "second", "adapt.rank=1", "train.learning_rate=0.02", "train.average=0")
    first, after = [entry for entry in read_metrics(tmp_path / "second") if entry["kind"] == "valid"][:2]
    best = [entry for entry in read_metrics(adapter) if entry.get("best")][-1]
    assert first["loss"] == pytest.approx(best["loss"]) and after["loss"] < first["loss"]
    before = harken.load(adapter).model.state_dict()
    assert any(not torch.equal(value, before[name]) for name, value in second.model.state_dict().items())


def test_an_adapter_that_got_worse_is_not_kept(start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = type(JOB.prepare(load_recipe(start / "recipe.toml"), tmp_path / "prepared", False).task)
    scores, metrics = iter(range(100, 0, -1)), task.metrics
    monkeypatch.setattr(task, "metrics", lambda self, sums: {**metrics(self, sums), "bleu": float(next(scores))})
    model = adapted(start, tmp_path / "mine", "adapt.rank=2", "train.validate_every=1")
    first = harken.load(start).model.state_dict()
    assert all(torch.equal(value, first[name]) for name, value in model.model.state_dict().items())
    assert "those of the start" in (tmp_path / "mine" / "card.md").read_text()


@pytest.mark.parametrize("at", [0, 2])
def test_a_resumed_adapter_ends_the_same(
    start: Path, tmp_path: Path, ends_the_same: Callable[..., Any], at: int
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'[data]\nsource = "{start.parent / "own.tsv"}"\n[adapt]\nstart = "{start}"\nrank = 2\n')
    ends_the_same(file, [*SHORT, "train.validate_every=2", "train.checkpoint_every=1"], at)


def test_tables_that_do_not_go_with_a_rank_are_refused(start: Path) -> None:
    tables = {"data": {"source": str(start.parent / "own.tsv")}}
    assert harken.recipe.as_recipe({**tables, "adapt": {"start": str(start), "rank": 2}}).train.learning_rate == 4e-3
    for adapt, others, error in (
        ({"rank": 2}, {}, r"set adapt\.start"),
        ({"rank": 2, "start": str(start)}, {"train": {"sharding": "full"}}, "whole matrices"),
        ({"rank": 2, "start": str(start)}, {"embeddings": {"words": "own"}}, r"remove \[embeddings\]"),
    ):
        with pytest.raises(UserError, match=error):
            harken.recipe.as_recipe({**tables, **others, "adapt": adapt})


def test_what_cannot_be_adapted_is_refused(start: Path, tmp_path: Path) -> None:
    own = start.parent / "own.tsv"
    with pytest.raises(UserError, match="no finished model folder"):
        harken.train(own, tmp_path / "mine", start=tmp_path, progress=False)
    with pytest.raises(UserError, match=r"set adapt\.start"):
        harken.train(own, tmp_path / "mine", mix=own, overrides=SHORT, progress=False)
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text(
        "".join(f"the {noun} number {row}\tNON {noun}\n" for noun in ("cat", "dog") for row in range(20))
    )
    with pytest.raises(UserError, match="a translation needs two"):  # and it is no data to classify
        harken.train(labelled, tmp_path / "mine", start=start, progress=False)
    assert not (tmp_path / "mine").exists()


def test_a_student_does_not_start_from_the_start_of_its_teacher(adapter: Path) -> None:
    student = student_recipe(load_recipe(adapter / "recipe.toml"))
    assert student.adapt == type(student.adapt)()


def test_suggestions_are_training_data(start: Path, tmp_path: Path) -> None:
    pairs = [line.split("\t") for line in (start.parent / "own.tsv").read_text().splitlines()]
    records = [{"q": q, "s": s, "source": "en", "target": "fr"} for q, s in pairs]
    file = tmp_path / "suggestions.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    model = harken.train(file, tmp_path / "mine", start=start, overrides=SHORT, progress=False)
    corpus = JOB.load_data(model.recipe)
    assert {(pair.source, pair.target) for pair in (*corpus.train, *corpus.valid)} == {tuple(pair) for pair in pairs}
    assert (model.recipe.data.source_language, model.recipe.data.target_language) == ("en", "fr")
    mixed = harken.train(
        start.parent / "own.tsv", tmp_path / "mixed", start=start, mix=file, overrides=SHORT, progress=False
    )
    own = JOB.load_data(mixed.recipe)
    general = general_corpus(mixed.recipe, own)
    assert general is not None
    held_out = {pair.source for pair in (*own.valid, *general.valid)}
    assert {pair.source for pair in general.train} == {source for source, _ in pairs} - held_out
    assert f"out of {len(general.train)} pairs of suggestions" in (mixed.folder / "card.md").read_text()

    file.write_text(file.read_text() + json.dumps({**records[0], "target": "de"}) + "\n")
    with pytest.raises(Undecided, match="en-fr, en-de"):
        infer(file)
    with pytest.raises(UserError, match="not en-it"):
        infer(file, pair="en-it")
    assert len(list(infer(file, pair="en-de").conversions["source"].lines())) == 1
