"""Dependency trees from the data to the encoder: trained, saved, loaded, and asked for when they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import harken
from harken.errors import UserError
from harken.recipe import load_recipe

SENTENCES = [("the|2 cat|3 sleeps|0", "le chat dort"), ("a|2 dog|3 eats|0 fish|3", "un chien mange du poisson")]


@pytest.fixture
def overrides(tmp_path: Path) -> list[str]:
    (tmp_path / "mine.en").write_text("".join(f"{source}\n" for source, _ in SENTENCES * 20))
    (tmp_path / "mine.fr").write_text("".join(f"{target}\n" for _, target in SENTENCES * 20))
    words = {
        "data.corpus": "none",
        "data.size": "none",
        "data.source": tmp_path / "mine.en",
        "data.target": tmp_path / "mine.fr",
        "data.valid_size": 20,
        "data.source_heads": "true",
        "model.layers": 1,
        "model.width": 16,
        "model.heads": 2,
        "model.feedforward": 16,
        "train.max_steps": 4,
        "train.validate_every": 2,
        "train.workers": 1,
        "train.precision": "float32",
        "train.device": "cpu",
        "search.beam": 2,
    }
    return [f"{key}={value}" for key, value in words.items()]


def train(tmp_path: Path, overrides: list[str], positions: str):
    out = tmp_path / positions
    return harken.train(
        "phrasebook-transformer", out, overrides=[*overrides, f"model.positions={positions}"], progress=False
    )


def test_a_model_of_trees_reads_them_and_asks_for_them(tmp_path: Path, overrides: list[str]) -> None:
    trained = train(tmp_path, overrides, "dependency")
    loaded = harken.load(tmp_path / "dependency")
    lines = [source for source, _ in SENTENCES]
    for one, other in zip(trained.translate(lines), loaded.translate(lines), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-5)
    assert loaded.translate(lines[0]).source_words == ["the", "cat", "sleeps"]
    with pytest.raises(UserError, match='sentence 1 has "the" where'):
        loaded.translate("the cat sleeps")


def test_another_tree_gives_other_numbers_and_padding_none(tmp_path: Path, overrides: list[str]) -> None:
    model = train(tmp_path, overrides, "dependency")
    with torch.no_grad():  # distances are learned from 0 on: make them matter
        for name, parameter in model.model.named_parameters():
            if "positions" in name:
                parameter.normal_()
    first, other = "the|2 cat|3 sleeps|0", "the|3 cat|1 sleeps|0"
    alone = model.align(first, "le chat dort").score
    assert model.align(other, "le chat dort").score != pytest.approx(alone, abs=1e-6)
    together = model.align_all([SENTENCES[1][0], first], ["un chien", "le chat dort"])[1].score
    assert together == pytest.approx(alone, abs=1e-5)


def test_other_positions_leave_the_trees_out(tmp_path: Path, overrides: list[str]) -> None:
    model = train(tmp_path, overrides, "relative")
    first, other = "the|2 cat|3 sleeps|0", "the|3 cat|1 sleeps|0"
    assert model.align(first, "le chat").score == model.align(other, "le chat").score


def test_trees_that_are_not_there_are_asked_for() -> None:
    with pytest.raises(UserError, match=r"data\.source_heads = true"):
        load_recipe("phrasebook-transformer", ["model.positions=dependency"])
