"""How often labels are right: accuracy, F1 of each class and their mean, and which is taken for which.

precision_k = right_k / said_k,  recall_k = right_k / are_k,  F1_k = 2 right_k / (said_k + are_k)
macro F1 is the plain mean over the classes that occur, so a rare one counts as much as a common one.

>>> accuracy([0, 1, 1, 2], [0, 1, 0, 2])
0.75
>>> [round(value, 3) for value in f1_by_class([0, 1, 1, 2], [0, 1, 0, 2], 3)]
[0.667, 0.667, 1.0]
>>> confusion([0, 1, 1], [0, 1, 0], 2).tolist()
[[1, 0], [1, 1]]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def accuracy(right: npt.ArrayLike, said: npt.ArrayLike) -> float:
    """The share that is right."""
    return float(np.mean(np.asarray(right) == np.asarray(said))) if np.size(right) else float("nan")


def confusion(right: npt.ArrayLike, said: npt.ArrayLike, classes: int) -> np.ndarray:
    """(K, K) counts: a row is a true class, a column what was said."""
    flat = np.asarray(right, dtype=np.int64) * classes + np.asarray(said, dtype=np.int64)
    return np.bincount(flat, minlength=classes * classes).reshape(classes, classes)


def f1_by_class(right: npt.ArrayLike, said: npt.ArrayLike, classes: int) -> list[float]:
    """F1 of every class; NaN for one that neither occurs nor is said."""
    counts = confusion(right, said, classes)
    below = counts.sum(0) + counts.sum(1)
    found = np.full(classes, np.nan)
    np.divide(2.0 * np.diag(counts), below, out=found, where=below > 0)
    return [float(value) for value in found]


def macro_f1(right: npt.ArrayLike, said: npt.ArrayLike) -> float:
    """The mean of F1 over the classes that occur or are said."""
    if not np.size(right):
        return float("nan")
    classes = int(max(np.max(right), np.max(said))) + 1
    return float(np.nanmean(f1_by_class(right, said, classes)))
