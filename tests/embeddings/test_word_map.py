"""The map of words and its page."""

import json
import re

import numpy as np
import pytest

from harken.embeddings.vectors import WordVectors
from harken.embeddings.word_map import WordMap
from harken.errors import UserError

CENTRES = np.eye(6)[:3] * 4


def three_clouds(each: int = 20) -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([centre + generator.normal(scale=0.4, size=(each, 6)) for centre in CENTRES])


def test_the_page_holds_words_places_and_neighbors() -> None:
    words = ["<script>", "ö", *(f"w{number}" for number in range(58))]
    vectors = WordVectors(words, three_clouds())
    picture = WordMap.of(vectors, 30, methods=("pca",), clusters=3, title="A & B")
    page = picture.page()
    assert "<title>A &amp; B</title>" in page
    assert not re.search(r"https?://|{{", page)
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert held
    data = json.loads(held[1])
    assert data["words"] == words[:30]
    assert np.abs(np.array(data["places"]["pca"])).max() == 1
    near = vectors.neighbors("ö", 10)
    assert [word for word, _ in data["near"][1]] == [word for word, _ in near]
    assert [score for _, score in data["near"][1]] == pytest.approx([score for _, score in near], abs=1e-3)


def test_maps_that_cannot_be_are_refused() -> None:
    vectors = WordVectors(["a", "b"], np.eye(2))
    with pytest.raises(UserError, match="A map of 1 words"):
        WordMap.of(vectors, ["a", "a"])
    with pytest.raises(UserError, match='"umap" is unknown'):
        WordMap.of(vectors, methods=("umap",))
    with pytest.raises(UserError, match='"c" is not among'):
        WordMap.of(vectors, ["a", "c"])
