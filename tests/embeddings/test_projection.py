"""PCA, t-SNE and k-means of vectors."""

import sys

import numpy as np
import pytest

from harken.embeddings.word_map import kmeans, pca, tsne
from harken.errors import UserError

CENTRES = np.eye(6)[:3] * 4


def three_clouds(each: int = 20) -> np.ndarray:
    generator = np.random.default_rng(1)
    return np.concatenate([centre + generator.normal(scale=0.4, size=(each, 6)) for centre in CENTRES])


def test_pca_finds_the_directions_of_largest_variance() -> None:
    points = np.random.default_rng(2).normal(size=(40, 5)) * [5, 1, 3, 0.5, 0.1]
    found = pca(points, 2)
    values, vectors = np.linalg.eigh(np.cov(points.T))
    np.testing.assert_allclose(found.var(0, ddof=1), values[::-1][:2], rtol=1e-6)
    assert abs(found[:, 0] @ found[:, 1]) < 1e-8
    np.testing.assert_allclose(np.abs(found[:, 0]), np.abs((points - points.mean(0)) @ vectors[:, -1]), atol=1e-8)
    assert pca(points[:, :1], 2).shape == (40, 2)


def test_tsne_keeps_clouds_together_and_is_reproducible() -> None:
    pytest.importorskip("sklearn")
    points = three_clouds()
    places = tsne(points, 10)
    distances = np.linalg.norm(places[:, None] - places, axis=-1)
    np.fill_diagonal(distances, np.inf)
    kind = np.arange(60) // 20
    assert (kind[distances.argmin(1)] == kind).all()
    assert np.array_equal(places, tsne(points, 10))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_tsne_of_few_or_equal_points_is_finite(count: int) -> None:
    pytest.importorskip("sklearn")
    assert np.isfinite(tsne(np.zeros((count, 3)), 10)).all()
    assert tsne(np.eye(count), 30).shape == (count, 2)


def test_kmeans_finds_the_clouds_largest_first() -> None:
    pytest.importorskip("sklearn")
    points = np.concatenate([three_clouds(), three_clouds()[:15]]).astype(np.float32)
    labels = kmeans(points, 3)
    kind = np.concatenate([np.arange(60) // 20, np.zeros(15, dtype=int)])
    assert len(set(zip(labels.tolist(), kind.tolist(), strict=True))) == 3
    assert (labels[kind == 0] == 0).all()
    assert set(kmeans(points[:2], 10).tolist()) == {0, 1}
    assert kmeans(np.ones((4, 2), dtype=np.float32), 3).tolist() == [0, 0, 0, 0]


def test_without_scikit_learn_the_error_names_the_extra_and_pca_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for call in (lambda: tsne(three_clouds()), lambda: kmeans(three_clouds(), 3)):
        with pytest.raises(UserError, match=r"needs scikit-learn.*harken\[embeddings\]"):
            call()
    assert pca(three_clouds(), 2).shape == (60, 2)
    assert kmeans(three_clouds(), 1).tolist() == [0] * 60
