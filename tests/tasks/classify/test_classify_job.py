"""The whole way of a classifier: what is counted is built, what is loaded was trained, a cut run ends the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import harken
from harken.cli.app import app
from harken.data.synthetic.opinions import make_splits
from harken.data.text.examples import Labelled, LabelledSplits
from harken.embeddings.vectors import WordVectors
from harken.errors import UserError
from harken.models.sizing import measure
from harken.recipe import load_recipe
from harken.tasks.classify.classifier import Classifier, build_classifier
from harken.tasks.classify.job import JOB, class_weights
from harken.tasks.classify.labels import in_order, merge_fine, numbers_of
from harken.tasks.classify.recipe import ClassifyRecipe
from harken.tasks.labelled.reading import cut
from harken.training.display import choose_display
from harken.training.loop import Trainer

SMALL = [
    *("model.embedding=16", "model.width=16", "train.precision=float32", "train.device=cpu", "train.workers=1"),
    *("train.threads=1", "train.batch_tokens=512", "train.learning_rate=1e-2", "train.warmup_steps=5"),
]
TEXT = [*SMALL, "data.size=400", "train.max_steps=60", "train.max_epochs=none", "train.validate_every=30"]
SIGNAL = [*SMALL, "data.size=120", "train.max_steps=40", "train.max_epochs=none", "train.validate_every=20"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return harken.train("opinions-classify", tmp_path_factory.mktemp("c") / "t", overrides=TEXT, progress=False)


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return harken.train("gestures-classify", tmp_path_factory.mktemp("c") / "s", overrides=SIGNAL, progress=False)


def run(*arguments: Any, stdin: str | None = None, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    assert result.exit_code == code, result.output
    return result


def test_it_learns_more_than_chance_and_the_folder_has_all(texts: Any, signals: Any) -> None:
    assert {path.name for path in texts.folder.iterdir()} == {
        "model.safetensors", "recipe.toml", "tokenizer.json", "labels.json", "metrics.jsonl", "card.md",
        "baseline.json", "checkpoint.previous.safetensors", "checkpoint.safetensors", "data.json",
        "digests.json",
    }  # fmt: skip
    assert texts.classes == ["negative", "positive"] and len(signals.classes) == 6
    best = [json.loads(line) for line in (signals.folder / "metrics.jsonl").read_text().splitlines()][-1]
    assert best["accuracy"] > 0.5 and best["kind"] == "valid"  # a sixth by chance
    assert "accuracy" in (signals.folder / "card.md").read_text()


def test_what_is_loaded_is_what_was_trained(texts: Any, signals: Any) -> None:
    for model, examples in ((texts, ["the film was good", ""]), (signals, [np.ones((30, 2)), np.zeros((5, 2))])):
        again = harken.load(model.folder)
        found = again.predict_proba(examples)
        assert np.array_equal(found, model.predict_proba(examples))
        assert np.allclose(found.sum(1), 1) and found.shape == (2, len(model.classes))
        assert again.predict(examples) == [model.classes[best] for best in found.argmax(1)]


def test_neighbours_in_a_batch_change_nothing(texts: Any, signals: Any) -> None:
    long = "although the soup was dull , the view was really very pleasant"
    numbers = np.random.default_rng(1)
    arrays = [numbers.normal(size=(length, 2)).astype(np.float32) for length in (40, 7)]
    for model, examples in ((texts, [long, "the film was good"]), (signals, arrays)):
        together = model.predict_proba(examples)
        alone = np.concatenate([model.predict_proba([example]) for example in examples])
        assert np.allclose(together, alone, atol=1e-6)


def test_attention_is_one_weight_a_word_or_frame(texts: Any, signals: Any) -> None:
    text = "the film, honestly, was not good"
    assert texts.words(text) == text.split()
    weights = texts.attention(text)
    assert weights.shape == (6,) and 0 < weights.sum() <= 1 + 1e-6 and weights.min() >= 0
    assert texts.saliency(text).shape == (6,)
    frames = np.ones((12, 2), np.float32)
    assert signals.attention(frames).shape == (12,) and signals.attention(frames).sum() == pytest.approx(1)


@pytest.mark.parametrize("pooling", ["last", "max"])
def test_without_attention_it_says_so_and_looks_by_gradient(tmp_path: Path, pooling: str) -> None:
    changes = [*TEXT, f"classifier.pooling={pooling}", "train.max_steps=2"]
    model = harken.train("opinions-classify", tmp_path / "m", overrides=changes, progress=False)
    with pytest.raises(UserError, match="which has no weights"):
        model.attention("good")
    picture = JOB.attention_figure(model, "the film was good").to_terminal(100, False)
    assert f"gradient ({pooling} pooling)" in picture and "1.0" in picture and "attention" not in picture


@pytest.mark.parametrize("name", ["opinions-classify", "gestures-classify"])
@pytest.mark.parametrize("pooling", ["mean", "attention"])
@pytest.mark.parametrize("score", ["additive", "multiplicative", "cosine", "dot"])
def test_an_example_costs_as_much_as_its_tokens(name: str, pooling: str, score: str) -> None:
    members = 3 if score == "additive" else 1
    changes = [f"classifier.pooling={pooling}", f"classifier.score={score}", f"classifier.members={members}"]
    recipe = load_recipe(name, changes)
    inputs = 50 if recipe.data.kind == "text" else 3
    model = build_classifier(recipe, inputs, 7)
    token, example = measure(model, 20), measure(model, 20, terms=1)
    assert example.total == sum(parameter.numel() for parameter in model.parameters())
    assert example.flops == pytest.approx(20 * token.flops) and token.flops > 0


def test_a_run_that_breaks_off_goes_on_to_the_same_weights(ends_the_same: Callable[..., Any]) -> None:
    ends_the_same("opinions-classify", [*TEXT, "train.max_steps=30", "train.checkpoint_every=10"], at=15)


def test_examples_in_memory_train_as_those_of_a_corpus(tmp_path: Path, texts: Any) -> None:
    recipe = load_recipe(texts.folder / "recipe.toml")
    made = make_splits(400, recipe.data.seed)
    torch.manual_seed(recipe.train.seed)
    prepared = JOB.prepare_examples(recipe, made, tmp_path / "m")
    Trainer(prepared.task, recipe.train, tmp_path / "m", choose_display(False)).run()
    model = JOB.load(tmp_path / "m", recipe, "cpu")
    for value, other in zip(model.model.parameters(), texts.model.parameters(), strict=True):
        assert torch.equal(value, other)
    few = Labelled([np.ones((3, 2)), np.zeros((4, 2))], ["a", "b"])
    with pytest.raises(UserError, match="example 1 is a ndarray, but the model reads texts"):
        JOB.prepare_examples(recipe, LabelledSplits("few", few, few, {}), tmp_path / "n")


def test_labels_and_their_numbers() -> None:
    assert in_order(["b", "10", "9", "a", "b"]) == ["9", "10", "a", "b"]
    assert numbers_of(["b", "a"], ["a", "b"], "x") == [1, 0]
    with pytest.raises(UserError, match="the test has the label 'postive', which training has not; did you mean"):
        numbers_of(["postive"], ["negative", "positive"], "the test")
    assert cut([5, 3], 2, "both") == [5, 3] and cut([5, 6, 7, 3], 2, "end") == [7, 3]
    weights = class_weights(torch.tensor([0, 0, 0, 1]), 2, "balanced")
    assert weights is not None and weights[[0, 0, 0, 1]].mean() == 1


def test_the_verb(texts: Any, signals: Any, tmp_path: Path) -> None:
    lines = run("classify", texts.folder, stdin="the film was good\n\n").stdout.splitlines()
    assert len(lines) == 2 and set(lines) <= {"negative", "positive"}
    label, chance = run("classify", texts.folder, "--scores", stdin="the film was good\n").stdout.split()
    assert label == lines[0] and 0.5 <= float(chance) <= 1
    assert len(run("classify", texts.folder, "--top", 2, stdin="so good\n").stdout.split("\t")) == 4
    found = json.loads(run("classify", texts.folder, "--json", stdin="café\n").stdout)
    assert found["example"] == "café" and sum(found["scores"].values()) == pytest.approx(1, abs=1e-5)
    np.save(tmp_path / "one.npy", np.ones((20, 2)))
    assert run("classify", signals.folder, tmp_path / "one.npy").stdout.strip() in signals.classes
    np.savez(tmp_path / "many.npz", values=np.ones((3, 20, 2)), labels=["tick"] * 3)
    assert len(run("classify", signals.folder, tmp_path / "many.npz").stdout.splitlines()) == 3


def test_evaluate_and_attention(texts: Any, signals: Any, tmp_path: Path) -> None:
    found = json.loads(run("evaluate", texts.folder, "--json").stdout)
    assert (
        found["texts"] == 1000 and found["accuracy_interval"][0] <= found["accuracy"] <= found["accuracy_interval"][1]
    )
    matrix = np.array(found["confusion"])
    assert matrix.sum() == 1000 and np.trace(matrix) / 1000 == pytest.approx(found["accuracy"])
    run("evaluate", signals.folder, "--split", "valid", "--out", tmp_path)
    assert (tmp_path / "confusion.svg").read_text().startswith("<svg")
    (tmp_path / "mine.csv").write_text("text,label\nthe film was good,positive\n")
    assert json.loads(run("evaluate", texts.folder, tmp_path / "mine.csv", "--json").stdout)["texts"] == 1
    shown = run("attention", texts.folder, "the film was not good", "--out", tmp_path / "a.html").stdout
    assert [line.split()[0] for line in shown.splitlines()[2:4]] == ["attention", "gradient"]
    np.save(tmp_path / "one.npy", np.ones((20, 2)))
    shown = run("attention", signals.folder, tmp_path / "one.npy").stdout
    assert "weights" in shown and "channel 2" in shown


def test_mistakes_are_one_line(texts: Any, signals: Any, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("text,label\ngood,postive\n")
    np.save(tmp_path / "wide.npy", np.ones((20, 3)))
    for arguments, said in (
        (["evaluate", texts.folder, tmp_path / "wrong.csv"], "did you mean 'positive'?"),
        (["evaluate", texts.folder, "--split", "exam"], "has no split 'exam'; choose --split train or valid or test"),
        (["classify", signals.folder], "signals do not come through stdin"),
        (["classify", signals.folder, tmp_path / "wide.npy"], "(20, 3); give (time, channels) with 2 channels"),
        (["classify", texts.folder, tmp_path / "no.txt"], "no.txt does not exist"),
        (["train", "imdb-classify", "--out", tmp_path / "x"], "add --set data.dir=DIR, where train.tsv.xz is"),
        (["train", "opinions-classify", "--out", tmp_path / "x", "--set", "classifier.poling=max"], "fier.pooling?"),
        (["train", "opinions-classify", "--out", tmp_path / "x", "--set", "data.corpus=opinion"], "data.corpus is"),
    ):  # fmt: skip
        result = run(*arguments, stdin="", code=2)
        assert said in result.stderr and result.stderr.count("\n") == 1, result.stderr
    with pytest.raises(UserError, match="write \\[text\\]"):
        texts.predict("the film")
    with pytest.raises(UserError, match="example 1 is a text, but the model reads signals"):
        signals.predict(["the film"])


def test_too_long_for_its_positions(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_text("text,label\n" + "".join(f"{'a ' * 20}{n},{n % 2}\n" for n in range(20)))
    recipe = (
        f'task = "classify"\n[data]\ntrain = "{tmp_path}/long.csv"\n[model]\narchitecture = "transformer"\n'
        'width = 8\nheads = 2\nlayers = 1\npositions = "learned"\nmax_length = 16\n[train]\nmax_steps = 1\n'
    )
    (tmp_path / "long.toml").write_text(recipe)
    with pytest.raises(UserError, match=r"longer than model.max_length 16 .* set data.max_tokens"):
        harken.train(tmp_path / "long.toml", tmp_path / "m", progress=False)
    model = harken.train(tmp_path / "long.toml", tmp_path / "n", overrides=["data.max_tokens=8"], progress=False)
    assert model.predict(["a " * 100])[0] in ("0", "1") and model.attention("a " * 100).shape == (100,)


def test_words_begin_as_the_vectors_that_are_given(tmp_path: Path) -> None:
    vectors = WordVectors(["good", "dull", "zebra"], np.arange(48).reshape(3, 16) - 24.0)
    vectors.save(tmp_path / "words")
    changes = [*TEXT, f"embeddings.words={tmp_path / 'words'}", "embeddings.tuned=false", "train.max_steps=2"]
    model = harken.train("opinions-classify", tmp_path / "m", overrides=changes, progress=False)
    table = model.model.reader.inputs.table.weight.detach()
    (good,), (zebra,) = model.tokenizer.encode("good"), model.tokenizer.encode("zebra")  # never in a review
    given = torch.from_numpy(np.array(vectors.vector("good")))
    assert torch.cosine_similarity(table[good], given, dim=0) > 0.9999
    assert table[[good, zebra]].std() == pytest.approx(16**-0.5, rel=0.5)
    with pytest.raises(UserError, match=r"vectors of 16 numbers, but model\.embedding is 8"):
        harken.train("opinions-classify", tmp_path / "n", overrides=[*changes, "model.embedding=8"], progress=False)


def test_vectors_of_its_own_are_the_same_twice_and_bring_words_together(tmp_path: Path) -> None:
    changes = [*TEXT, "embeddings.words=own", "embeddings.tuned=false", "train.max_steps=2", "data.size=800"]
    tables = []
    for name in ("one", "two"):
        model = harken.train("opinions-classify", tmp_path / name, overrides=changes, progress=False)
        tables.append(model.model.reader.inputs.table.weight.detach())
    assert torch.equal(*tables)
    assert "initialised from own" in (tmp_path / "one" / "card.md").read_text()
    drawn = harken.train("opinions-classify", tmp_path / "drawn", overrides=[*changes[:-4], "train.max_steps=2"])
    assert not torch.equal(tables[0][4:20], drawn.model.reader.inputs.table.weight.detach()[4:20])


def test_a_classifier_begins_with_a_masked_model(tmp_path: Path) -> None:
    encoder = 'model={architecture="transformer", layers=1, width=16, heads=2, feedforward=32'
    short = ["train.max_steps=2", "train.max_minutes=none", "train.workers=1", "train.device=cpu"]
    masked = harken.train(
        "phrasebook-masked", tmp_path / "masked", overrides=[encoder + "}", *short, "data.size=300"], progress=False
    )
    pretrained = [encoder + f', start="{tmp_path / "masked"}"}}', "train.max_epochs=none", "classifier={}", *short]
    still = ["train.learning_rate=1e-30", "train.average=0"]
    model = harken.train("opinions-classify", tmp_path / "m", overrides=[*pretrained, *still], progress=False)
    theirs = dict(masked.model.reader.encoder.named_parameters())
    for name, parameter in model.model.reader.encoder.named_parameters():
        assert torch.allclose(parameter, theirs[name], atol=1e-6), name
    assert model.tokenizer.size > masked.tokenizer.size  # its own words, and those of the masked model
    (here,), (there,) = model.tokenizer.encode("the"), masked.tokenizer.encode("the")
    tables = [found.model.reader.inputs.table.weight for found in (model, masked)]
    assert torch.allclose(tables[0][here], tables[1][there], atol=1e-6)
    loaded = harken.load(tmp_path / "m")
    assert np.allclose(loaded.predict_proba(["a good film"]), model.predict_proba(["a good film"]))
    with pytest.raises(UserError, match="another than this recipe's"):
        other = pretrained[0].replace("feedforward=32", "feedforward=64")
        harken.train("opinions-classify", tmp_path / "n", overrides=[other, *pretrained[1:]], progress=False)
    with pytest.raises(UserError, match="keep one of them"):
        harken.train(
            "opinions-classify", tmp_path / "o", overrides=[*pretrained, "embeddings.words=own"], progress=False
        )


def test_finer_labels_are_learnt_and_added_up(tmp_path: Path) -> None:
    kinds = {"HUM:who": "who sang", "HUM:team": "which team", "LOC:city": "what city", "LOC:sea": "what sea"}
    lines = [f"{label} {words} {n}" for n in range(30) for label, words in kinds.items()]
    (tmp_path / "q.txt").write_text("\n".join(lines) + "\n")
    changes = [*TEXT, f"data.dir={tmp_path}", "data.train=q.txt", "data.corpus=none", "data.format=prefix"]
    changes += ["data.label_until=:", "data.valid_size=10", "data.test_size=10", "data.size=none"]
    model = harken.train("opinions-classify", tmp_path / "m", overrides=[*changes, "classifier.fine=true"])
    assert model.classes == ["HUM", "LOC"] and model.model.output.out_features == 4
    assert json.loads((tmp_path / "m" / "fine-labels.json").read_text()) == {
        "HUM:team": 0, "HUM:who": 0, "LOC:city": 1, "LOC:sea": 1,
    }  # fmt: skip
    assert model.predict(["what sea 40", "who sang 41"]) == ["LOC", "HUM"]
    again = harken.load(tmp_path / "m")
    assert np.array_equal(again.predict_proba(["what 1"]), model.predict_proba(["what 1"]))
    assert JOB.evaluate(again, None, [], lambda done: None)["accuracy"] == 1.0
    gone_on = JOB.prepare(again.recipe, tmp_path / "m", True).task
    assert gone_on.train[1].max() == 3 and gone_on.valid[1].max() == 1
    (tmp_path / "m" / "fine-labels.json").write_text('{"HUM:team": 0}')
    (tmp_path / "m" / "digests.json").unlink()  # as in a folder of an earlier version
    with pytest.raises(UserError, match=r"fine-labels\.json does not fit labels\.json"):
        harken.load(tmp_path / "m")
    with pytest.raises(UserError, match=r"neither is given; set one, or leave classifier\.fine out"):
        harken.train("opinions-classify", tmp_path / "n", overrides=[*TEXT, "classifier.fine=true"])
    with pytest.raises(UserError, match="'x' belongs to 'a' here and to 'b' there"):
        merge_fine(["x", "x"], ["a", "b"], ["a", "b"])


def test_words_of_the_vectors_are_known_after_those_of_the_texts(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1)
    words = ["zebra", "rock-and-roll", "good", "dull", "soup"]
    WordVectors(words, numbers.normal(size=(5, 16))).save(tmp_path / "words")
    changes = [*TEXT, f"embeddings={tmp_path / 'words'}", "train.max_steps=3", "train.average=0"]
    model = harken.train("opinions-classify", tmp_path / "m", overrides=changes, progress=False)
    (zebra,) = model.tokenizer.encode("zebra")
    assert zebra == model.tokenizer.size - 1  # rock-and-roll is never one word
    again = harken.load(tmp_path / "m")
    assert np.array_equal(again.predict_proba(["a zebra"]), model.predict_proba(["a zebra"]))
    assert not np.array_equal(again.predict_proba(["a zebra"]), again.predict_proba(["a gnu"]))


def test_signals_are_read_by_a_small_gru_unless_the_recipe_has_a_model() -> None:
    data = {"kind": "signal", "train": "a.ts"}
    recipe = ClassifyRecipe.model_validate({"data": data, "classifier": {"noise": 0.0}})
    assert (recipe.model.cell, recipe.model.width, recipe.model.embedding) == ("gru", 128, 64)
    assert (recipe.classifier.choose_by, recipe.classifier.noise) == ("loss", 0.0)
    own = ClassifyRecipe.model_validate({"data": data, "model": {"architecture": "recurrent"}})
    assert (own.model.cell, own.classifier.choose_by) == ("lstm", "accuracy")


def test_a_label_from_right_to_left_stands_before_its_probability() -> None:
    model = SimpleNamespace(classes=["إيجابي", "سلبي"], predict_proba=lambda examples: np.array([[0.9, 0.1]]))
    assert Classifier.title_of(model, "any") == "\u200eإيجابي\u200e 0.90"  # type: ignore[arg-type]
