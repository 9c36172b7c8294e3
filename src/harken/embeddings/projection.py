"""Project vectors to a plane (PCA, t-SNE) and cluster them (k-means).

    PCA       the directions of largest variance, by a singular value decomposition (numpy)
    t-SNE     keeps near points near: van der Maaten and Hinton, 2008; scikit-learn's Barnes-Hut version
    k-means   on vectors of unit length, k-means++ initialisation: Arthur and Vassilvitskii, 2007; scikit-learn's

scikit-learn comes with the extra `embeddings`; PCA does not need it.

>>> points = np.array([[0, 0, 0], [2, 0, 0], [4, 1, 0.0]])
>>> pca(points, 1).round(2)[:, 0].tolist()
[-2.02, -0.08, 2.1]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vectors import unit
from harken.errors import require_extra

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
