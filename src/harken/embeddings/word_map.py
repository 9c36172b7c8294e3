"""Words on a plane as a page of its own: search a word, see its neighbours, colours for groups; nothing is fetched.

The page has both maps, PCA and t-SNE, for the words shown, and their nearest words among all there are. Its script and
style are in `map_page.html` in this folder.

    PCA       the directions of largest variance, by a singular value decomposition (numpy)
    t-SNE     keeps near points near: van der Maaten and Hinton, 2008; scikit-learn's Barnes-Hut version
    k-means   on vectors of unit length, k-means++ initialisation: Arthur and Vassilvitskii, 2007; scikit-learn's

scikit-learn comes with the extra `embeddings`; PCA does not need it.

>>> points = np.array([[0, 0, 0], [2, 0, 0], [4, 1, 0.0]])
>>> pca(points, 1).round(2)[:, 0].tolist()
[-2.02, -0.08, 2.1]
>>> vectors = WordVectors(["a", "b", "c", "d"], np.eye(4))
>>> picture = WordMap.of(vectors, ["a", "c"], methods=("pca",), clusters=2)
>>> picture.words, sorted(picture.places), len(picture.near[0])
(['a', 'c'], ['pca'], 3)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vectors import WordVectors, unit
from harken.errors import UserError, require_extra

MOST = 5000  # words: every pair of them is looked at many times
NEAR = 10
BEFORE_TSNE = 50  # dimensions that t-SNE sees, by PCA
METHODS = ("tsne", "pca")


@dataclass(frozen=True)
class WordMap:
    """Words, where each map puts them, their groups, and the words nearest to each."""

    words: list[str]
    places: dict[str, NDArray[np.float64]]  # method -> (N, 2), from -1 to 1
    groups: NDArray[np.int64]
    near: list[list[tuple[str, float]]]
    title: str

    @classmethod
    def of(
        cls,
        vectors: WordVectors,
        words: Sequence[str] | int = 1000,
        *,
        methods: Sequence[str] = METHODS,
        clusters: int = 12,
        perplexity: float = 30.0,
        title: str = "Word vectors",
    ) -> WordMap:
        """A map of the words named, or of so many from the first on (the most frequent).

        Raises:
            UserError: too few or too many words, or one that is not known.
        """
        shown = vectors.words[:words] if isinstance(words, int) else list(dict.fromkeys(words))
        if not 2 <= len(shown) <= MOST:
            raise UserError(f"A map of {len(shown):,} words cannot be drawn: give from 2 to {MOST:,}.")
        points = np.stack([vectors.vector(word) for word in shown])
        flat = unit(points)
        projections = {
            "pca": lambda: pca(flat, 2),
            "tsne": lambda: tsne(pca(flat, min(BEFORE_TSNE, flat.shape[1])), perplexity),
        }
        unknown = [method for method in methods if method not in projections]
        if unknown:
            raise UserError(f'The map "{unknown[0]}" is unknown: use {" or ".join(METHODS)}.')
        points_of = {method: _fit(projections[method]()) for method in methods}
        return cls(shown, points_of, kmeans(points, clusters), _nearest(vectors, shown, points), title)

    def page(self) -> str:
        """A whole HTML document, complete in itself."""
        data = {
            "words": self.words,
            "groups": self.groups.tolist(),
            "places": {method: np.round(points, 4).tolist() for method, points in self.places.items()},
            "near": [[[word, round(score, 3)] for word, score in neighbours] for neighbours in self.near],
        }
        safe = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        frame = resources.files("harken.embeddings").joinpath("map_page.html").read_text(encoding="utf-8")
        return frame.replace("{{title}}", escape(self.title)).replace("{{data}}", safe)


def _fit(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Moved and scaled into -1 to 1, the same across and down."""
    low, high = points.min(0), points.max(0)
    return (points - (low + high) / 2) / max(float((high - low).max()) / 2, 1e-12)


def _nearest(vectors: WordVectors, shown: list[str], points: NDArray[np.float32]) -> list[list[tuple[str, float]]]:
    neighbours = []
    for start in range(0, len(shown), 256):
        scores = vectors.scores(points[start : start + 256])
        for word, row in zip(shown[start : start + 256], scores, strict=True):
            number = vectors.vocabulary.id_of(word)
            if number is not None:
                row[number] = -np.inf
            count = min(NEAR, len(row) - (number is not None))
            best: list[int] = np.argpartition(-row, count - 1)[:count].tolist() if count else []
            neighbours.append(
                sorted(((vectors.words[index], float(row[index])) for index in best), key=lambda pair: -pair[1])
            )
    return neighbours


ITERATIONS = 500  # of t-SNE


def pca(points: NDArray[np.floating], dimensions: int) -> NDArray[np.float64]:
    """(N, dimensions): the points along their directions of largest variance."""
    centred = np.asarray(points, dtype=np.float64) - np.mean(points, 0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)])  # makes the signs reproducible
    scores = (left * sizes * signs)[:, :dimensions]
    return np.pad(scores, ((0, 0), (0, dimensions - scores.shape[1])))


def tsne(points: NDArray[np.floating], perplexity: float = 30.0) -> NDArray[np.float64]:
    """(N, 2), the same for the same points; the perplexity is limited to a third of the other points.

    Raises:
        UserError: scikit-learn is not installed.
    """
    require_extra("sklearn", "embeddings", "t-SNE")
    from sklearn.manifold import TSNE

    start = pca(points, 2)
    start = start / max(float(start[:, 0].std()), 1e-12) * 1e-4  # as scikit-learn's init="pca" scales it
    start += np.random.default_rng(0).normal(scale=1e-6, size=start.shape)  # separates equal points
    model = TSNE(
        perplexity=min(perplexity, max((len(points) - 1) / 3, 0.5)),
        init=start.astype(np.float32),
        max_iter=ITERATIONS,
        random_state=0,
    )
    return np.asarray(model.fit_transform(np.asarray(points, dtype=np.float32)), dtype=np.float64)


def kmeans(vectors: NDArray[np.float32], clusters: int) -> NDArray[np.int64]:
    """(N,): the cluster of each vector by direction, the largest cluster 0; at most one per distinct direction.

    Raises:
        UserError: scikit-learn is not installed.
    """
    points = unit(np.asarray(vectors))
    clusters = min(clusters, len(np.unique(points, axis=0)))
    if clusters == 1:
        return np.zeros(len(points), dtype=np.int64)
    require_extra("sklearn", "embeddings", "k-means")
    from sklearn.cluster import KMeans

    labels = KMeans(clusters, n_init=4, random_state=0).fit(points).labels_
    order = np.argsort(-np.bincount(labels, minlength=clusters), kind="stable")
    rank = np.empty(clusters, dtype=np.int64)
    rank[order] = np.arange(clusters)
    return rank[labels]
