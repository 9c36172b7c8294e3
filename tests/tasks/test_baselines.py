"""The baseline of a run: stored, shown when training starts, on the card, and compared in `harken evaluate`."""

import json
from pathlib import Path

import numpy as np
import pytest

import harken
from harken.data.series.series import Series
from harken.errors import UserError
from harken.metrics.forecasting import season_scale, seasonal_naive
from harken.tasks.baselines import BASELINE, Baseline, compare
from harken.tasks.registry import job_of
from harken.tasks.scores import Metric, Scores

SMALL = ["train.max_steps=2", "train.batch_tokens=400", "train.precision=float32", "train.workers=1"]
TINY = {
    "opinions-classify": ["data.size=200", "model.embedding=4", "model.width=4"],
    "phrasebook-tag": ["data.size=200", "model.embedding=4", "model.width=4"],
    "seasons-forecast": ["data.series=2", "data.size=200", "model.embedding=4", "model.width=4"],
}


def scores(value: float, count: int = 100) -> Scores:
    return Scores(count, "texts", [Metric("accuracy", value)])


def never() -> Baseline:
    raise AssertionError("the stored baseline should be used")


@pytest.mark.parametrize("recipe", TINY)
def test_an_untrained_model_is_said_to_be_worse(
    recipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = harken.train(recipe, tmp_path / "run", overrides=[*TINY[recipe], *SMALL, "train.max_epochs=none"])
    shown = capsys.readouterr().out
    stored = BASELINE.load(tmp_path / "run")
    assert stored.line in shown
    assert "the model is worse than its baseline" in shown
    assert f"| baseline | {stored.name}: {stored.metric}" in (tmp_path / "run" / "card.md").read_text()
    found = job_of(model.recipe.task).evaluate(model, "valid", [], lambda done: None)
    details = found.to_dict()["baseline"]
    assert details["name"] == stored.name
    assert details[stored.metric] == pytest.approx(stored.scores["valid"][stored.metric])
    assert details["is_above_model"] is bool(found.notes)


def test_it_is_stored_and_loaded(tmp_path: Path) -> None:
    baseline = Baseline("naive Bayes", "accuracy", {"valid": {"accuracy": 0.5, "count": 9}}, 90, sampled=True)
    BASELINE.save(baseline, tmp_path)
    assert BASELINE.load(tmp_path) == baseline
    assert baseline.line.endswith("(fitted on a sample of 90)")
    (tmp_path / "baseline.json").write_text(json.dumps({"name": "x"}))
    with pytest.raises(UserError, match="missing or damaged"):
        BASELINE.load(tmp_path)


def test_the_stored_scores_are_used_for_the_split_they_are_of(tmp_path: Path) -> None:
    BASELINE.save(Baseline("b", "accuracy", {"test": {"accuracy": 0.8, "count": 100}}, 9), tmp_path)
    found = compare(scores(0.7), tmp_path, "test", never)
    assert found.details["baseline"] == {"name": "b", "accuracy": 0.8, "is_above_model": True}
    assert found["baseline accuracy"] == 0.8 and len(found.notes) == 1
    assert compare(scores(0.9), tmp_path, "test", never).notes == []
    other = Baseline("b", "accuracy", {"test": {"accuracy": 0.6, "count": 50}}, 9)
    assert compare(scores(0.7, 50), tmp_path, "test", lambda: other)["baseline accuracy"] == 0.6
    assert compare(scores(0.7), tmp_path, None, lambda: other)["baseline accuracy"] == 0.6


def test_a_model_without_its_training_data_is_scored_alone(tmp_path: Path) -> None:
    def missing() -> Baseline:
        raise UserError("train.csv does not exist")

    assert "baseline" not in compare(scores(0.7), tmp_path, None, missing).details


def test_a_smaller_error_is_better() -> None:
    baseline = Baseline("seasonal naive", "mase", {"valid": {"mase": 1.2, "count": 3}}, 9, mode="min")
    assert baseline.warning({"mase": 1.3}) and not baseline.warning({"mase": 1.1})
    assert baseline.on_card({"mase": 1.3}).endswith("worse than the baseline")
    assert baseline.on_card({"mase": 1.1}).endswith("model 1.1000")


def test_the_naive_forecast_is_scored_on_the_validation_windows(tmp_path: Path) -> None:
    from harken.data.synthetic.seasons import make_seasons
    from harken.recipe import load_recipe

    recipe = load_recipe("seasons-forecast", [*TINY["seasons-forecast"], *SMALL])
    prepared = job_of("forecast").prepare(recipe, tmp_path, False)
    assert prepared.baseline is not None
    made: list[Series] = make_seasons(2, 200, recipe.data.seed)
    errors, counted = 0.0, 0
    for one in made:
        train, valid = 200 - 120, 200 - 60
        for origin in range(train, valid):
            steps = min(recipe.data.horizon, valid - origin)
            found = seasonal_naive(one.target, [origin], steps, 7)[0]
            scale = season_scale(one.target[:train], 7)
            errors += float(np.abs(one.target[origin : origin + steps] - found).sum()) / scale
            counted += steps
    assert prepared.baseline.scores["valid"]["mase"] == pytest.approx(errors / counted)
