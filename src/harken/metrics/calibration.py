"""Calibration: whether probabilities are as high as the share of predictions that are right, and how to make them so.

    scaling    p = softmax(sum_s a_s z_s), with a_s >= 0 that minimise the mean of -log p(y) on held-out examples.
               Of one classifier with logits z this is temperature scaling with T = 1 / a (Guo et al., 2017), which
               changes no prediction; of several it is a logarithmic opinion pool (Genest and Zidek, 1986).
    ECE        sum over 15 bins of confidence of (examples in it / N) |accuracy - mean confidence|
    Brier      mean over examples of sum_k (p_k - [y = k])^2                                       (Brier, 1950)

>>> logits = np.array([[8.0, 0.0]] * 90 + [[0.0, 8.0]] * 10)     # nine times of ten right, and 0.9997 sure
>>> labels = np.zeros(100, dtype=int)
>>> scale = fit_scales([logits], labels)[0]
>>> before, after = softmax(logits), softmax(scale * logits)
>>> round(float(before[0, 0]), 4), round(float(after[0, 0]), 2)
(0.9997, 0.9)
>>> round(calibration_error(before, labels), 2), calibration_error(after, labels) < 0.01
(0.1, True)
>>> round(brier_score(before, labels), 2), round(brier_score(after, labels), 2)
(0.2, 0.18)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

BINS = 15
MAX_UPDATES = 50
PRIOR = 1.0  # weight of a prior around equal scales, in examples; few examples, or separable ones, change little


def softmax(logits: np.ndarray) -> np.ndarray:
    """Logits (N, K) as probabilities (N, K)."""
    return np.exp(log_softmax(logits))


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logits (N, K) as log-probabilities (N, K)."""
    shifted = logits - logits.max(1, keepdims=True)
    log_probs: np.ndarray = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return log_probs


def mean_loss(log_probs: np.ndarray, labels: np.ndarray) -> float:
    """The mean of -log p(y), from log-probabilities (N, K) and labels (N,)."""
    return float(-log_probs[np.arange(len(labels)), labels].mean())


def fit_scales(logits: Sequence[np.ndarray], labels: np.ndarray) -> np.ndarray:
    """The scale a_s of each of S classifiers by Newton's method; the loss is convex in them.

    Args:
        logits: of each classifier, (N, K).
        labels: (N,) numbers of the right classes.
    """
    stacked = np.stack([np.asarray(part, dtype=np.float64) for part in logits])  # (S, N, K)
    used = np.arange(len(stacked))
    scales = np.zeros(len(stacked))
    while len(used):
        fitted = _newton(stacked[used], labels)
        if (fitted > 0).all():
            scales[used] = fitted
            return scales
        used = np.delete(used, fitted.argmin())  # a classifier whose evidence would count against itself
    return np.full(len(stacked), 1 / len(stacked))


def _newton(stacked: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The unconstrained scales of logits (S, N, K)."""
    count, rows = len(stacked), np.arange(len(labels))
    centre, prior = np.full(count, 1 / count), PRIOR / len(labels)

    def loss_of(scales: np.ndarray) -> float:
        distance = float(((scales - centre) ** 2).sum())
        return mean_loss(log_softmax(np.tensordot(scales, stacked, 1)), labels) + prior * distance / 2

    scales = centre.copy()
    loss = loss_of(scales)
    for _ in range(MAX_UPDATES):
        probabilities = softmax(np.tensordot(scales, stacked, 1))  # (N, K)
        expected = (probabilities * stacked).sum(-1)  # (S, N)
        gradient = (expected - stacked[:, rows, labels]).mean(1) + prior * (scales - centre)
        spread = stacked - expected[..., None]
        hessian = np.einsum("nk,snk,tnk->st", probabilities, spread, spread) / len(labels) + prior * np.eye(count)
        update, step = np.linalg.solve(hessian, gradient), 1.0
        while (new := loss_of(scales - step * update)) > loss and step > 1e-6:
            step /= 2
        if step <= 1e-6 or loss - new < 1e-10:
            break
        scales, loss = scales - step * update, new
    return scales


def calibration_error(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The expected calibration error of probabilities (N, K) for labels (N,)."""
    if not len(labels):
        return float("nan")
    confidence, right = probabilities.max(1), probabilities.argmax(1) == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(bins, right - confidence, minlength=BINS)).sum() / len(labels))


def brier_score(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The Brier score of probabilities (N, K) for labels (N,): 0 is best, 2 is worst."""
    if not len(labels):
        return float("nan")
    return float(((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(1).mean())
