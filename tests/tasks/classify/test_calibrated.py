"""The default classifier of texts: n-grams beside the network, and probabilities calibrated on validation examples."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import harken
from harken.data.text.labelled_splits import read_splits
from harken.errors import UserError
from harken.metrics.calibration import calibration_error, mean_loss, softmax
from harken.recipe import as_recipe
from harken.tasks.classify.job import JOB
from harken.tasks.classify.labels import numbers_of
from harken.training.weights import load_tensors, save_tensors

QUICK: dict[str, Any] = {
    "max_steps": 40,
    "validate_every": 20,
    "checkpoint_every": 10,
    "learning_rate": 1e-2,
    "batch_tokens": 512,
    "warmup_steps": 5,
    "device": "cpu",
    "workers": 1,
    "threads": 1,
    "precision": "float32",
}
REVIEWS = ["the film was not good", "", "a great cast , but never dull"]


def recipe_of(**classifier: Any) -> dict[str, Any]:
    tables: dict[str, Any] = {"task": "classify", "data": {"corpus": "opinions", "size": 300}, "train": QUICK}
    return {**tables, "classifier": {"members": 1, **classifier}}


def noisy_table(path: Path) -> Path:
    """Texts of few words, a quarter of whose labels are wrong."""
    numbers = np.random.default_rng(1)
    rows = ["text,label"]
    for _ in range(600):
        words, label = numbers.choice(list("abcdefghijklmnop"), 6), numbers.integers(0, 2)
        mark = "good" if label else "bad"
        rows.append(f"{' '.join(words)} {mark},{label if numbers.random() > 0.25 else 1 - label}")
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return harken.train(recipe_of(), tmp_path_factory.mktemp("small") / "run", progress=False)


def test_n_grams_are_the_default_of_texts_without_a_model_and_of_nothing_else() -> None:
    assert as_recipe(recipe_of()).classifier.ngrams == "auto"
    assert as_recipe(recipe_of(ngrams="none")).classifier.ngrams == "none"
    assert as_recipe({**recipe_of(), "model": {"architecture": "recurrent"}}).classifier.ngrams == "none"
    assert as_recipe("opinions-classify").classifier.ngrams == "none"
    with pytest.raises(UserError, match="needs texts and classifier"):
        as_recipe(recipe_of(calibrate=False))


def test_what_is_loaded_is_what_was_trained(model: Any) -> None:
    again = harken.load(model.folder)
    assert again.ngrams is not None and len(again.ngrams.keys) > 50
    assert torch.equal(again.model.scales, model.model.scales)
    probabilities = model.predict_proba(REVIEWS)
    assert np.array_equal(again.predict_proba(REVIEWS), probabilities)
    assert np.allclose(probabilities, np.concatenate([again.predict_proba([text]) for text in REVIEWS]), atol=1e-6)
    assert not np.allclose(probabilities, softmax(model.uncalibrated(REVIEWS)), atol=1e-3)
    assert model.saliency(REVIEWS[0]).shape == (5,)
    network = model.model(*model.padded(REVIEWS))[0]  # whatever its scale, its gradients can be looked at
    assert np.allclose(network.detach().numpy(), model.uncalibrated(REVIEWS), atol=1e-5)


def test_validation_card_and_scores_tell_of_calibration(model: Any) -> None:
    lines = [json.loads(line) for line in (model.folder / "metrics.jsonl").read_text().splitlines()]
    best = next(line for line in reversed(lines) if line.get("best"))
    assert best["calibration.network"] == pytest.approx(float(model.model.scales[0]))
    assert best["calibration.ngrams"] == pytest.approx(float(model.model.scales[1]))
    splits = JOB.load_data(model.recipe)
    labels = np.array(numbers_of(splits.valid.labels, model.classes, "valid"))
    probabilities = model.predict_proba(splits.valid.values)
    assert best["accuracy"] == pytest.approx((probabilities.argmax(1) == labels).mean())
    assert best["calibration.loss"] == pytest.approx(mean_loss(np.log(probabilities), labels), abs=1e-4)
    assert best["calibration.error"] == pytest.approx(calibration_error(probabilities, labels), abs=1e-3)
    card = (model.folder / "card.md").read_text()
    assert "calibration error" in card and "| n-grams | " in card
    scores = JOB.evaluate(model, "valid", [], lambda done: None).to_dict()
    assert scores["calibration_error"] == pytest.approx(best["calibration.error"], abs=1e-3)
    assert {"brier", "brier_before", "calibration_error_before", "loss_before"} <= scores.keys()
    counts = np.bincount(labels)
    assert scores["majority"] == pytest.approx(counts.max() / counts.sum())


def test_an_overconfident_network_gets_a_lower_loss_and_the_same_labels(tmp_path: Path) -> None:
    table = noisy_table(tmp_path / "noisy.csv")
    tables = recipe_of(ngrams="none", dropout=0.0, word_dropout=0.0, choose_by="accuracy") | {
        "data": {"train": str(table), "valid_size": 150, "test_size": 150},
        "model": {"architecture": "recurrent", "embedding": 16, "width": 16, "dropout": 0.0},
        "train": {**QUICK, "max_steps": 150, "validate_every": 150, "label_smoothing": 0.0},
    }
    model = harken.train(tables, tmp_path / "run", progress=False)
    (scale,) = model.model.scales.tolist()
    assert 0 < scale < 0.8
    test = JOB.load_data(model.recipe).tests["test"]
    labels = np.array(numbers_of(test.labels, model.classes, "test"))
    before, after = softmax(model.uncalibrated(test.values)), model.predict_proba(test.values)
    assert np.array_equal(before.argmax(1), after.argmax(1))
    assert mean_loss(np.log(after), labels) < mean_loss(np.log(before), labels)
    assert calibration_error(after, labels) < calibration_error(before, labels)


def test_a_folder_without_scales_has_a_temperature_of_1(model: Any, tmp_path: Path) -> None:
    tables = {**recipe_of(), "model": {"architecture": "recurrent", "embedding": 8, "width": 8}}
    trained = harken.train(tables, tmp_path / "run", progress=False)
    tensors, _ = load_tensors(trained.folder / "model.safetensors")
    del tensors["scales"]
    save_tensors(trained.folder / "model.safetensors", tensors)
    again = harken.load(trained.folder)
    assert again.model.scales is None
    assert np.allclose(again.predict_proba(REVIEWS), softmax(trained.uncalibrated(REVIEWS)), atol=1e-7)
    assert "calibration_error_before" not in JOB.evaluate(again, "test", [], lambda done: None).to_dict()


def test_a_run_that_was_started_without_scales_can_be_resumed(tmp_path: Path) -> None:
    tables = {**recipe_of(), "model": {"architecture": "recurrent", "embedding": 8, "width": 8}}
    first = harken.train(tables, tmp_path / "run", progress=False)
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    tensors, metadata = load_tensors(checkpoint)
    del tensors["model.scales"]  # of version 0.1
    save_tensors(checkpoint, tensors, {"state": metadata["state"]})
    steps = 2 * first.recipe.train.max_steps
    model = harken.train(tables, tmp_path / "run", overrides=[f"train.max_steps={steps}"], resume=True, progress=False)
    assert float(model.model.scales) != 1.0
    with pytest.raises(UserError, match=r"has no model\.output"):
        del tensors["model.output.weight"]
        save_tensors(checkpoint, tensors, {"state": metadata["state"]})
        harken.train(tables, tmp_path / "run", overrides=["train.max_steps=200"], resume=True, progress=False)


def test_a_run_that_breaks_off_ends_with_the_same_weights_and_scales(
    ends_the_same: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(
        'task = "classify"\n[data]\ncorpus = "opinions"\nsize = 200\n[classifier]\nmembers = 2\n[train]\n'
        + "\n".join(f"{key} = {json.dumps(value)}" for key, value in QUICK.items())
    )
    ends_the_same(str(path), [], at=25)


def test_characters_and_merged_labels(tmp_path: Path) -> None:
    lines = [f"{'AB'[row % 2]}:{row % 4} {'ab'[row % 2] * 3}{'xyz'[row % 3]}" for row in range(120)]
    (tmp_path / "prefixed.txt").write_text("\n".join(lines) + "\n")
    tables = recipe_of(fine=True, class_weights="balanced") | {
        "data": {"train": str(tmp_path / "prefixed.txt"), "format": "prefix", "label_until": ":"},
        "tokenizer": {"kind": "character"},
    }
    model = harken.train(tables, tmp_path / "run", progress=False)
    assert model.ngrams.weight.shape[1] == 2  # not of the four fine labels
    assert harken.load(tmp_path / "run").predict(["aaax", "bbbz"]) == ["A", "B"]


def test_a_class_that_was_held_out_as_a_whole_goes_back_to_training(tmp_path: Path) -> None:
    rows = [f"text number {row},{'common' if row >= 40 else f'rare {row}'}" for row in range(300)]
    (tmp_path / "rare.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    data = {"train": str(tmp_path / "rare.csv"), "test_size": 60, "valid_size": 60}
    recipe = as_recipe(recipe_of() | {"data": data})
    held = read_splits(recipe.data)
    assert {*held.valid.labels, *held.tests["test"].labels} - {*held.train.labels}  # as the split is drawn
    splits = JOB.load_data(recipe)
    parts = [splits.train, splits.valid, splits.tests["test"]]
    assert set(splits.train.labels) == {"common", *(f"rare {row}" for row in range(40))}
    assert sorted(text for part in parts for text in part.values) == sorted(row.partition(",")[0] for row in rows)
    assert set(splits.valid.labels) == set(splits.tests["test"].labels) == {"common"}
