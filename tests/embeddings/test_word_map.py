"""The map of words: PCA, t-SNE, groups, and the page they are drawn on."""

import json
import re

import numpy as np
import pytest

from harken.embeddings.clusters import groups
from harken.embeddings.tsne import affinities, divergence, pca, tsne
from harken.embeddings.vectors import WordVectors
from harken.embeddings.word_map import WordMap
from harken.errors import UserError

CENTRES = np.eye(6)[:3] * 4


def three_clouds(each: int = 20) -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([centre + generator.normal(scale=0.4, size=(each, 6)) for centre in CENTRES])


def test_pca_keeps_the_widest_directions() -> None:
    points = np.random.default_rng(2).normal(size=(40, 5)) * [5, 1, 3, 0.5, 0.1]
    found = pca(points, 2)
    values, vectors = np.linalg.eigh(np.cov(points.T))
    np.testing.assert_allclose(found.var(0, ddof=1), values[::-1][:2], rtol=1e-6)
    assert abs(found[:, 0] @ found[:, 1]) < 1e-8
    np.testing.assert_allclose(np.abs(found[:, 0]), np.abs((points - points.mean(0)) @ vectors[:, -1]), atol=1e-8)
    assert pca(points[:, :1], 2).shape == (40, 2)


def test_affinities_have_the_perplexity_asked_for() -> None:
    points = three_clouds()
    p = affinities(points, 10)
    assert p.sum() == pytest.approx(1)
    assert np.array_equal(p, p.T) and (np.diag(p) == 0).all()
    # of points so far apart that each sees only its own cloud, as many as were asked for
    rows = p / p.sum(1, keepdims=True)
    assert rows[:20, :20].sum() / 20 > 0.99


def test_the_forces_are_the_slope_of_the_divergence() -> None:
    pytest.importorskip("numba")
    from harken.embeddings.kernels.neighbor_map import forces

    generator = np.random.default_rng(3)
    p = affinities(generator.normal(size=(8, 4)), 2)
    places = generator.normal(size=(8, 2))
    x, y = places.T.astype(np.float32).copy()
    slope = np.zeros((2, 8), dtype=np.float32)
    forces(p.astype(np.float32), x, y, slope[0], slope[1])
    for place in np.ndindex(8, 2):
        bump = np.zeros((8, 2))
        bump[place] = 1e-5
        expected = (divergence(p, places + bump) - divergence(p, places - bump)) / 2e-5
        assert slope.T[place] == pytest.approx(expected, abs=2e-5)


def test_tsne_keeps_clouds_together() -> None:
    pytest.importorskip("numba")
    points = three_clouds()
    places = tsne(points, 10)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    np.fill_diagonal(distances, np.inf)
    kind = np.arange(60) // 20
    assert (kind[distances.argmin(1)] == kind).all()
    assert divergence(affinities(points, 10), places) < divergence(affinities(points, 10), pca(points, 2))
    assert np.array_equal(places, tsne(points, 10))
    assert np.isfinite(tsne(np.zeros((5, 3)), 10)).all()


def test_groups_are_the_clouds_largest_first() -> None:
    points = np.concatenate([three_clouds(), three_clouds()[:15]]).astype(np.float32)
    found = groups(points, 3)
    kind = np.concatenate([np.arange(60) // 20, np.zeros(15, dtype=int)])
    assert len({(a, b) for a, b in zip(found.tolist(), kind.tolist(), strict=True)}) == 3
    assert (found[kind == 0] == 0).all()
    assert set(groups(points[:2], 10).tolist()) <= {0, 1}
    assert groups(np.ones((4, 2), dtype=np.float32), 3).max() < 3


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
