"""Accuracy, F1 and confusion are their formulas."""

import math

import numpy as np
import pytest

from harken.metrics.labels import accuracy, confusion, f1_by_class, macro_f1

RIGHT, SAID = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, 2, 2]


def test_f1_is_the_harmonic_mean_of_precision_and_recall() -> None:
    for label, value in enumerate(f1_by_class(RIGHT, SAID, 3)):
        right = sum(a == b == label for a, b in zip(RIGHT, SAID, strict=True))
        precision, recall = right / SAID.count(label), right / RIGHT.count(label)
        assert value == pytest.approx(2 * precision * recall / (precision + recall))
    assert macro_f1(RIGHT, SAID) == pytest.approx(np.mean(f1_by_class(RIGHT, SAID, 3)))
    assert accuracy(RIGHT, SAID) == pytest.approx(4 / 6)


def test_confusion_counts_every_pair() -> None:
    assert confusion(RIGHT, SAID, 4).tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]


def test_a_class_that_never_occurs_counts_nothing() -> None:
    assert math.isnan(f1_by_class([0], [0], 2)[1])
    assert macro_f1([0, 2], [0, 2]) == 1.0
    assert math.isnan(macro_f1([], [])) and math.isnan(accuracy([], []))
