"""Regression: numbers for texts, from files to a folder and back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harken
from harken.models.heads.regressor import RegressorModel
from harken.models.sizing import measure
from harken.recipe import load_recipe
from harken.tasks.regress.job import JOB, build_regressor, score

RECIPE = """
task = "regress"
[data]
train = "{folder}/stars.csv"
label_column = "stars"
valid_size = 8
test_size = 8
[model]
architecture = "recurrent"
embedding = 16
width = 16
[train]
max_steps = 40
batch_tokens = 200
learning_rate = 1e-2
warmup_steps = 5
validate_every = 20
checkpoint_every = 10
average = 0.0
workers = 1
threads = 1
device = "cpu"
precision = "float32"
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("regress")
    nouns = [f"{one}{two}" for one in "abcdefgh" for two in "nopqr"]
    rows = [(f"{word} {noun}", stars) for noun in nouns for word, stars in (("good", 5), ("fair", 3), ("bad", 1))]
    (folder / "stars.csv").write_text("text,stars\n" + "".join(f"{text},{stars}\n" for text, stars in rows))
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder))
    harken.train(folder / "recipe.toml", folder / "model", progress=False)
    return folder


def test_numbers_are_learnt_and_scored(home: Path) -> None:
    model = harken.load(home / "model")
    good, bad = model.predict(["good an", "bad an"])
    assert good - bad > 2
    scores = JOB.evaluate(model, None, [], lambda done: None)
    assert scores.count == 8 and scores["R2"] > 0.5
    baseline = scores.details["baseline"]
    assert baseline["name"] == "TF-IDF of characters + ridge regression"
    assert 0 < baseline["rmse"] < 0.8  # the mean has about 1.6
    assert scores["baseline rmse"] == baseline["rmse"]
    assert "| baseline | TF-IDF of characters + ridge regression: rmse " in (home / "model" / "card.md").read_text()
    files = JOB.evaluate(model, None, [home / "stars.csv"], lambda done: None)
    assert files.count == 120
    with pytest.raises(harken.UserError, match="stars has no split 'tset'; choose --split train or valid or test"):
        JOB.evaluate(model, "tset", [], lambda done: None)


def test_padding_changes_nothing(home: Path) -> None:
    model = harken.load(home / "model")
    texts = ["good an", "bad an and then some more"]
    alone = [model.predict([text])[0] for text in texts]
    assert np.allclose(alone, model.predict(texts), atol=1e-5)


def test_a_run_that_was_stopped_ends_as_one_that_was_not(home: Path, ends_the_same: Callable[..., Any]) -> None:
    ends_the_same(home / "recipe.toml", [], at=13, whole=home / "model")


def test_scores_are_their_formulas() -> None:
    scores = score(np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 5.0]))
    assert scores["R2"] == pytest.approx(1 - 2 / 8)
    assert scores["MAE"] == pytest.approx(2 / 3)
    assert scores["RMSE"] == pytest.approx(np.sqrt(2 / 3))


def test_a_label_that_is_no_number_is_refused(home: Path, tmp_path: Path) -> None:
    rows = [f"word {row},{'many' if row % 2 else row}\n" for row in range(30)]
    (tmp_path / "stars.csv").write_text("text,stars\n" + "".join(rows))
    (tmp_path / "recipe.toml").write_text(RECIPE.format(folder=tmp_path))
    with pytest.raises(harken.UserError, match=r"is 'many', which is no number; check data\.label"):
        harken.train(tmp_path / "recipe.toml", tmp_path / "model", progress=False)


@pytest.mark.parametrize("pooling", ["last", "attention"])
def test_the_size_is_measured(home: Path, pooling: str) -> None:
    recipe = load_recipe(home / "recipe.toml", [f"regressor.pooling={pooling}"])
    model: RegressorModel = build_regressor(recipe, 50)
    assert measure(model).total == sum(value.numel() for value in model.parameters())
    assert harken.check(home / "recipe.toml", measure=False).parameters > 0
