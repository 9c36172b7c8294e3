"""The same recipe up the ladder: fitted sizes, one table, and going on after a stop."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harken.errors import UserError
from harken.lab.ladder import PRESET, PRESET_RUNGS, RESULTS, RUNGS, Result, climb, on_rung, rungs_named
from harken.lab.ladder_picture import LadderPicture, convergence
from harken.models.build import build_model
from harken.models.sizing import count_parameters, uninitialised
from harken.recipe import Recipe, load_recipe

TINY = [
    "data.size=300",
    "model.width=32",
    "model.feedforward=64",
    "model.layers=1",
    "train.max_steps=4",
    "train.max_minutes=none",  # a limit in minutes leaves out validations that take a large share of the time
    "train.validate_every=2",
    "train.validate_sentences=4",
    "train.batch_tokens=256",
    "train.workers=1",
    "train.precision=float32",
    "search.beam=1",
    "search.max_length_factor=0.1",  # what barely trained models write has no end
    "search.max_length_extra=2",
]


def total(recipe: Recipe) -> int:
    model = uninitialised(lambda: build_model(recipe.model, recipe.tokenizer.size, recipe.tokenizer.size))
    return sum(count_parameters(model).values())


@pytest.mark.parametrize("rung", RUNGS, ids=lambda rung: rung.name)
@pytest.mark.parametrize("name", ["phrasebook-transformer", "phrasebook-attention"])
def test_every_rung_is_about_as_large_as_the_recipes_own_model(rung, name: str) -> None:
    recipe = load_recipe(name)
    made = on_rung(recipe, rung)
    assert total(made) == pytest.approx(total(recipe), rel=0.12)
    assert {key: getattr(made.model, key) for key in rung.words} == rung.words
    for section in ("data", "tokenizer", "train", "search"):
        assert getattr(made, section) == getattr(recipe, section)


def test_the_rung_that_the_recipe_stands_on_is_the_recipe_itself() -> None:
    recipe = load_recipe("phrasebook-transformer")
    assert on_rung(recipe, rungs_named(["transformer"])[0]) == recipe


def test_rungs_come_in_the_order_of_the_ladder_and_typos_are_mended() -> None:
    assert [rung.name for rung in rungs_named(["transformer", "rnn"])] == ["rnn", "transformer"]
    with pytest.raises(UserError, match="did you mean transformer"):
        rungs_named(["transfomer"])


@pytest.mark.slow
def test_a_ladder_trains_scores_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    first = climb("phrasebook-transformer", tmp_path, rungs=["gru"], overrides=TINY, progress=False, tell=said.append)
    both = climb(
        "phrasebook-transformer",
        tmp_path,
        rungs=["gru", "transformer"],
        overrides=TINY,
        progress=False,
        tell=said.append,
    )
    assert both[0] == first[0]
    assert any("gru is finished" in line for line in said)
    assert [result.rung for result in both] == ["gru", "transformer"]
    assert [result.alignment_error is None for result in both] == [True, False]
    for result in both:
        assert result.updates == 4
        assert result.split == "test"
        assert result.flops > 0 and result.tokens_per_second > 0
        assert [row[0] for row in result.curve] == [2, 4]
        assert (tmp_path / result.folder / "model.safetensors").is_file()
    stored = json.loads((tmp_path / RESULTS).read_text())
    assert [entry["rung"] for entry in stored["results"]] == ["gru", "transformer"]
    with pytest.raises(UserError, match="another recipe"):
        climb("phrasebook-transformer", tmp_path, rungs=["gru"], overrides=[*TINY, "train.seed=2"], progress=False)


def result(name: str, bleu: float, flops: float) -> Result:
    return Result(name, name, bleu, bleu, None, "test", 10, flops, 1.0, 1.0, 1, name)


def test_the_picture_names_every_rung_and_the_best(tmp_path: Path) -> None:
    results = [result("rnn", 10.0, 1e12), result("attention", 50.0, 2e12), result("transformer", 50.1, 3e12)]
    picture = LadderPicture(results)
    drawn = picture.save(tmp_path / "ladder.svg").read_text()
    for name in ("rnn", "attention", "transformer", "10.0", "50.1", "3.0e+12"):
        assert f">{name}<" in drawn
    assert picture.title == "The same recipe on every rung: transformer has the highest BLEU, 50.1 (test)"
    with pytest.raises(UserError, match=r"ladder\.pdf"):
        picture.save(tmp_path / "ladder.pdf")


def test_a_rung_has_converged_when_its_last_quarter_gained_little() -> None:
    def learned(*curve: list[float]) -> Result:
        return replace(result("lstm", 50.0, 1e12), curve=list(curve))

    flat = learned([100, 2.0, 40.0], [300, 1.0, 49.5], [400, 0.9, 50.0])
    assert flat.gain == pytest.approx(0.5) and flat.converged is True
    assert learned([100, 2.0, 40.0], [200, 1.5, 44.0], [400, 0.9, 50.0]).gain == pytest.approx(3.0)  # between points
    assert learned([100, 2.0, 40.0], [300, 1.0, 45.0], [400, 0.9, 50.0]).converged is False
    barely = learned([100, 5.0, 0.1], [300, 4.0, 0.2], [400, 3.5, 0.3])  # BLEU is flat, the loss still falls
    assert barely.gain < 1 and barely.converged is False
    assert learned([200, 1.0, 49.0], [400, 0.9, 50.0]).converged is None
    assert convergence(barely) == "not converged, +0.1 BLEU in the last quarter"


def test_learning_curves_are_drawn(tmp_path: Path) -> None:
    curve = [[100, 2.0, 10.0], [200, 1.5, 30.0], [300, 1.0, 50.0]]
    picture = LadderPicture([replace(result("rnn", 10.0, 1e12), curve=curve), result("attention", 50.0, 2e12)])
    _, curves = picture.figures()
    assert [series.label for series in curves.panels[0].series] == ["rnn"]
    assert list(curves.panels[0].series[0].y) == [10.0, 30.0, 50.0]
    assert "not converged" in picture.to_svg() and "Learning curves" in picture.to_html()


def test_the_preset_is_a_recipe_whose_rungs_exist() -> None:
    recipe = load_recipe(PRESET)
    assert [rung.name for rung in rungs_named(PRESET_RUNGS)] == list(PRESET_RUNGS)
    assert recipe.train.max_steps / recipe.train.validate_every >= 6  # points of a learning curve


def test_a_broken_table_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / RESULTS).write_text("{")
    with pytest.raises(UserError, match="delete it"):
        climb("phrasebook-transformer", tmp_path, rungs=["gru"], overrides=TINY, progress=False)
