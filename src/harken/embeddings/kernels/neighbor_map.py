"""The forces of t-SNE between all pairs of points, compiled.

q_ij = 1 / (1 + |y_i - y_j|^2)       Z = sum of all q
dC/dy_i = 4 sum_j (p_ij - q_ij / Z) q_ij (y_i - y_j)

Pull and push are summed apart in one pass, since Z is known only at its end. Definition:
`harken.embeddings.tsne.divergence`, whose derivative this is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harken.embeddings.kernels.word2vec_step import compiled


@compiled
def forces(probabilities: Any, x: Any, y: Any, slope_x: Any, slope_y: Any) -> None:
    """Fill the slopes; probabilities (N, N) are symmetric and sum to 1."""
    count = len(x)
    push_x, push_y = np.empty(count, np.float32), np.empty(count, np.float32)
    zero, one = np.float32(0), np.float32(1)
    total = 0.0
    for i in range(count):
        pull_across = pull_down = push_across = push_down = near = zero
        for j in range(count):
            across, down = x[i] - x[j], y[i] - y[j]
            q = one / (one + across * across + down * down)
            near += q
            pull = probabilities[i, j] * q
            pull_across += pull * across
            pull_down += pull * down
            push = q * q
            push_across += push * across
            push_down += push * down
        total += np.float64(near) - 1.0  # a point is no neighbour of itself
        slope_x[i], slope_y[i] = pull_across, pull_down
        push_x[i], push_y[i] = push_across, push_down
    share = np.float32(1.0 / total)
    four = np.float32(4)
    for i in range(count):
        slope_x[i] = four * (slope_x[i] - push_x[i] * share)
        slope_y[i] = four * (slope_y[i] - push_y[i] * share)
