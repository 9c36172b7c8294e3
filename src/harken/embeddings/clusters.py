"""Groups of words that point the same way: k-means on vectors of length 1.

Begins with words far apart (k-means++ with a fixed seed), then in turns: every word to the nearest centre, every centre
to the mean of its words. Reference: Arthur and Vassilvitskii, 2007, "k-means++".

>>> groups(np.array([[1, 0.0], [0.9, 0.1], [0, 1], [0.1, 0.9], [0, 2]], dtype=np.float32), 2).tolist()
[1, 1, 0, 0, 0]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harken.embeddings.vectors import unit


def groups(vectors: NDArray[np.float32], count: int, turns: int = 30) -> NDArray[np.int64]:
    """(N,): the group of each, the largest group 0; at most as many as there are words."""
    points = unit(np.asarray(vectors))
    generator = np.random.default_rng(0)
    count = min(count, len(points))
    chosen = [int(generator.integers(len(points)))]
    for _ in range(count - 1):
        far = np.maximum(1 - (points @ points[chosen].T).max(1), 0).astype(np.float64)
        total = far.sum()
        weights = far / total if total > 0 else np.full(len(points), 1 / len(points))
        chosen.append(int(generator.choice(len(points), p=weights)))
    centres = points[chosen]
    mine = np.zeros(len(points), dtype=np.int64)
    for _ in range(turns):
        before, mine = mine, (points @ centres.T).argmax(1)
        for group in range(count):
            if (mine == group).any():
                centres[group] = unit(points[mine == group].mean(0))
        if np.array_equal(before, mine):
            break
    sizes = np.bincount(mine, minlength=count)
    rank = np.empty(count, dtype=np.int64)
    rank[np.lexsort((np.arange(count), -sizes))] = np.arange(count)
    return rank[mine]
