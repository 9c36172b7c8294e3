"""Scales of logits: they lower the loss of an overconfident classifier and change none of its predictions."""

import numpy as np
import pytest

from harken.metrics import calibration
from harken.metrics.calibration import (
    brier_score,
    calibration_error,
    fit_scales,
    log_softmax,
    mean_loss,
    softmax,
)


def overconfident(count: int = 400, classes: int = 3, factor: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose softmax would be right without the factor, and labels drawn from that softmax."""
    numbers = np.random.default_rng(1)
    logits = numbers.normal(size=(count, classes))
    labels = np.array([numbers.choice(classes, p=row) for row in softmax(logits)])
    return factor * logits, labels


def test_an_overconfident_classifier_gets_a_lower_loss_and_the_same_labels() -> None:
    logits, labels = overconfident()
    (scale,) = fit_scales([logits], labels)
    assert 1 / 8 < scale < 1 / 4.5  # drawn with 1 / 6
    before, after = log_softmax(logits), log_softmax(scale * logits)
    assert mean_loss(after, labels) < 0.6 * mean_loss(before, labels)
    assert np.array_equal(before.argmax(1), after.argmax(1))
    assert calibration_error(np.exp(after), labels) < 0.3 * calibration_error(np.exp(before), labels)
    assert brier_score(np.exp(after), labels) < brier_score(np.exp(before), labels)


def test_the_scale_is_that_of_a_search_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "PRIOR", 1e-6)
    logits, labels = overconfident(factor=0.3)
    grid = np.linspace(0.5, 8, 1501)
    losses = [mean_loss(log_softmax(scale * logits), labels) for scale in grid]
    assert fit_scales([logits], labels)[0] == pytest.approx(grid[int(np.argmin(losses))], abs=0.02)


def test_of_two_classifiers_each_gets_its_share_and_a_wrong_one_none() -> None:
    numbers = np.random.default_rng(2)
    labels = numbers.integers(0, 2, 1000)
    truth = np.eye(2)[labels]
    first, second = (truth + numbers.normal(size=truth.shape) for _ in range(2))
    scales = fit_scales([first, second], labels)
    assert (scales > 0.5).all()
    both = mean_loss(log_softmax(scales[0] * first + scales[1] * second), labels)
    alone = [mean_loss(log_softmax(fit_scales([part], labels)[0] * part), labels) for part in (first, second)]
    assert both < min(alone) - 0.02
    scales = fit_scales([first, -second], labels)
    assert scales[1] == 0 and scales[0] == pytest.approx(fit_scales([first], labels)[0])


def test_separable_examples_and_few_examples_have_finite_scales() -> None:
    logits = np.array([[1.0, 0.0], [0.0, 1.0]])
    (scale,) = fit_scales([logits], np.array([0, 1]))
    assert 1 < scale < 100
    wrong = [np.repeat(logits, 20, axis=0)] * 2
    assert fit_scales(wrong, np.repeat([1, 0], 20)).tolist() == [0.5, 0.5]  # all wrong: nothing to choose by
    assert fit_scales([np.zeros((3, 2))], np.array([0, 1, 0])).tolist() == [1.0]


def test_the_calibration_error_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.5, 0.5]])
    labels = np.array([0, 1, 1, 0])
    # bins: {0.9, 0.9} accuracy 1/2, {0.6} accuracy 1, {0.5} accuracy 1
    assert calibration_error(probabilities, labels) == pytest.approx((2 * 0.4 + 0.4 + 0.5) / 4)
    assert brier_score(probabilities, labels) == pytest.approx((0.02 + 1.62 + 0.32 + 0.5) / 4)
    assert np.isnan(calibration_error(probabilities[:0], labels[:0]))
