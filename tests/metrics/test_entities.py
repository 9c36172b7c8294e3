"""Entities are counted as seqeval counts them."""

import random

import pytest

from harken.metrics.entities import Counts, counts_by_kind, is_bio, sentence_counts, spans

seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval counts entities to compare with")
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
        assert counts.there == report[kind]["support"]


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
