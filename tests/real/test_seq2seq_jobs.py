"""What the recipes for made seq2seq corpora reach, as the issue asks; nothing but the package is needed."""

from pathlib import Path

import pytest

import harken
from harken.data.text.parallel import read_corpus


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dates", "brackets"])
def test_nearly_all_are_right_as_a_whole(name: str, tmp_path: Path) -> None:
    model = harken.train(f"{name}-seq2seq", tmp_path / "model", progress=False)
    assert model.evaluate(read_corpus(model.recipe.data).tests["test"]).exact.value >= 98.0
