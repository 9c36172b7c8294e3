"""Accuracy, F1 and the confusion matrix by their formulas; entities as seqeval counts them."""

import math
import random

import numpy as np
import pytest

from harken.metrics.labels import (
    Counts,
    accuracy,
    confusion,
    counts_by_kind,
    f1_by_class,
    is_bio,
    macro_f1,
    sentence_counts,
    spans,
)

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


TAGS = ["O", "O", "B-person", "I-person", "B-creative-work", "I-creative-work", "I-group", "B-group"]


def drawn(seed: int) -> tuple[list[list[str]], list[list[str]]]:
    """Random tags, broken ones (an I without a B) among them, and a copy in which some are changed."""
    numbers = random.Random(seed)
    gold = [[numbers.choice(TAGS) for _ in range(numbers.randint(1, 12))] for _ in range(30)]
    changed = [[numbers.choice(TAGS) if numbers.random() < 0.2 else tag for tag in row] for row in gold]
    return gold, changed


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore")
def test_scores_are_those_of_seqeval(seed: int) -> None:
    seqeval = pytest.importorskip("seqeval.metrics")
    gold, found = drawn(seed)
    total = sum((sentence_counts(*rows) for rows in zip(gold, found, strict=True)), Counts())
    assert total.f1 == pytest.approx(seqeval.f1_score(gold, found))
    assert total.precision == pytest.approx(seqeval.precision_score(gold, found))
    assert total.recall == pytest.approx(seqeval.recall_score(gold, found))
    report = seqeval.classification_report(gold, found, output_dict=True)
    kinds = counts_by_kind(gold, found)
    assert set(kinds) == {name for name in report if "avg" not in name}
    for kind, counts in kinds.items():
        assert counts.f1 == pytest.approx(report[kind]["f1-score"])
        assert counts.gold == report[kind]["support"]


def test_spans_by_hand() -> None:
    assert spans(["O", "B-a", "B-a", "I-a", "I-b", "O"]) == [("a", 1, 2), ("a", 2, 4), ("b", 4, 5)]
    assert spans([]) == []


def test_nothing_found_is_zero_and_no_error() -> None:
    assert Counts().f1 == Counts().precision == Counts().recall == 0.0
    assert sentence_counts(["B-a"], ["O"]).recall == 0.0


@pytest.mark.parametrize(
    ("tags", "bio"),
    [(["O", "B-a", "I-a"], True), (["NOUN", "O"], False), (["O"], False), (["B-a", "B"], False), (["I-a", "O"], False)],
)
def test_bio_is_known_by_its_tags(tags: list[str], bio: bool) -> None:
    assert is_bio(tags) is bio
