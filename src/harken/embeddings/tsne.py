"""t-SNE: points on a plane that keep who is near whom, and PCA, which keeps the widest directions.

p_j|i = exp(-|x_i - x_j|^2 / 2 s_i^2) / sum over k        s_i: so that i has `perplexity` neighbours
p_ij = (p_j|i + p_i|j) / 2N                               q_ij = 1 / (1 + |y_i - y_j|^2) / Z
C = sum p_ij log(p_ij / q_ij)

Every pair is looked at: fine for some thousand points. Reference: van der Maaten and Hinton, 2008, "Visualizing Data
using t-SNE"; steps as they advise (early exaggeration, momentum, gains), from a start by PCA.

>>> points = np.array([[0, 0, 0], [2, 0, 0], [4, 1, 0.0]])
>>> pca(points, 1).round(2)[:, 0].tolist()
[-2.02, -0.08, 2.1]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

STEPS = 500
EARLY = 150  # steps with all p twelve times as large, so that groups find together


def pca(points: NDArray[np.floating], dimensions: int) -> NDArray[np.float64]:
    """(N, dimensions): the points along the directions in which they differ most."""
    centred = np.asarray(points, dtype=np.float64) - np.mean(points, 0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(right[np.arange(len(right)), np.abs(right).argmax(1)])  # or the sign would be chance
    found = (left * sizes * signs)[:, :dimensions]
    return np.pad(found, ((0, 0), (0, dimensions - found.shape[1])))


def affinities(points: NDArray[np.floating], perplexity: float = 30.0) -> NDArray[np.float64]:
    """p: (N, N), symmetric, all of it 1."""
    count = len(points)
    perplexity = min(perplexity, (count - 1) / 3)
    squares = (points**2).sum(1)
    distances = np.maximum(squares[:, None] + squares - 2 * points @ points.T, 0)
    np.fill_diagonal(distances, np.inf)
    distances -= distances.min(1, keepdims=True)  # the nearest at 0: no row is all nothing
    low, high = np.full(count, -40.0), np.full(count, 40.0)  # logarithm of 1 / 2 s^2
    for _ in range(50):
        middle = (low + high) / 2
        weights = np.exp(-distances * np.exp(middle)[:, None])
        shares = weights / weights.sum(1, keepdims=True)
        entropy = -(shares * np.log(np.maximum(shares, 1e-300))).sum(1)
        too_wide = entropy > np.log(max(perplexity, 1.001))
        low, high = np.where(too_wide, middle, low), np.where(too_wide, high, middle)
    return (shares + shares.T) / (2 * count)


def divergence(probabilities: NDArray[np.float64], places: NDArray[np.float64]) -> float:
    """C, which the map makes small."""
    difference = places[:, None] - places
    q = 1 / (1 + (difference**2).sum(-1))
    np.fill_diagonal(q, 0)
    q = np.maximum(q / q.sum(), 1e-300)
    p = np.maximum(probabilities, 1e-300)
    return float((probabilities * np.log(p / q)).sum())


def tsne(
    points: NDArray[np.floating],
    perplexity: float = 30.0,
    steps: int = STEPS,
    tell: Callable[[int], None] = lambda steps: None,
) -> NDArray[np.float64]:
    """(N, 2). The same points give the same map."""
    from harken.embeddings.kernels.neighbor_map import forces

    start = pca(points, 2)
    places = (start / max(float(start[:, 0].std()), 1e-12) * 1e-2).T.astype(np.float32).copy()  # (2, N)
    places += np.random.default_rng(0).normal(scale=1e-4, size=places.shape).astype(np.float32)  # equal points part
    probabilities = affinities(points, perplexity).astype(np.float32)
    slope, speed, gains = np.zeros_like(places), np.zeros_like(places), np.ones_like(places)
    rate = np.float32(max(len(points) / 12 / 4, 50))
    for step in range(steps):
        factor = np.float32(12 if step < min(EARLY, steps // 3) else 1)
        forces(probabilities * factor if factor > 1 else probabilities, places[0], places[1], slope[0], slope[1])
        gains = np.maximum(np.where((slope > 0) == (speed > 0), gains * 0.8, gains + 0.2), 0.01).astype(np.float32)
        momentum = np.float32(0.5 if step < EARLY else 0.8)
        speed = momentum * speed - rate * gains * slope
        places += speed
        places -= places.mean(1, keepdims=True)
        tell(1)
    return places.T.astype(np.float64)
