"""Trivial baselines for labels and tags."""

import importlib.util
import math

import numpy as np
import pytest

from harken.metrics import baselines
from harken.metrics.baselines import MostFrequentTag, NaiveBayes, fit_label_baseline

TEXTS = ["a good film", "good and great", "a bad film", "bad, awful"] * 5
LABELS = ["+", "+", "-", "-"] * 5


def test_naive_bayes_has_the_probabilities_of_its_equation() -> None:
    found = NaiveBayes.fit(["a b", "a", "c"], ["x", "x", "y"])
    assert found.classes == ["x", "y"] and list(found.words) == ["a", "b", "c"]
    assert np.exp(found.prior) == pytest.approx([2 / 3, 1 / 3])
    assert np.exp(found.likelihood) == pytest.approx(np.array([[3 / 6, 2 / 6, 1 / 6], [1 / 4, 1 / 4, 2 / 4]]))
    assert found.predict(["unknown words", "c c"]) == ["x", "y"]


def test_texts_are_told_apart_by_their_words() -> None:
    pytest.importorskip("sklearn")
    fitted, count = fit_label_baseline(TEXTS, LABELS)
    assert fitted.name == "TF-IDF + logistic regression" and count == 20
    assert fitted.predict(["what a good one", "so bad!"]) == ["+", "-"]


def test_short_texts_are_told_apart_by_their_characters() -> None:
    pytest.importorskip("sklearn")
    fitted, _ = fit_label_baseline(["Rossini", "Bellini", "Petrov", "Ivanov"] * 5, ["it", "it", "ru", "ru"] * 5)
    assert fitted.name == "TF-IDF of characters + logistic regression"
    assert fitted.predict(["Puccini", "Popov"]) == ["it", "ru"]


def test_without_scikit_learn_texts_have_naive_bayes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    fitted, _ = fit_label_baseline(TEXTS, LABELS)
    assert fitted.name == "naive Bayes"
    assert fitted.predict(["good", "bad"]) == ["+", "-"]


def test_signals_are_told_apart_by_statistics_of_their_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    signals = [draw.normal(size=(10 + row, 2)) + 5 * (row % 2) for row in range(40)]
    labels = ["high" if row % 2 else "low" for row in range(40)]
    if importlib.util.find_spec("sklearn"):
        fitted, _ = fit_label_baseline(signals, labels)
        assert fitted.predict([np.full((3, 2), 5.0), np.zeros((3, 2))]) == ["high", "low"]
    monkeypatch.setattr(baselines, "find_spec", lambda name: None)
    fitted, _ = fit_label_baseline(signals, ["low", *labels[1:-1], "low"])
    assert fitted.name == "most frequent label" and fitted.predict(signals[:2]) == ["low", "low"]


def test_large_data_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MAX_EXAMPLES", 8)
    _, count = fit_label_baseline(TEXTS, LABELS)
    assert count == 8
    monkeypatch.setattr(baselines, "MAX_EXAMPLES", 10**6)
    monkeypatch.setattr(baselines, "MAX_CHARACTERS", 66)
    _, count = fit_label_baseline(TEXTS, LABELS)
    assert count == math.floor(66 / (sum(map(len, TEXTS)) / len(TEXTS)))


def test_an_unknown_word_has_the_most_frequent_tag_of_all() -> None:
    fitted = MostFrequentTag.fit([["the", "can"], ["can", "can"], ["run"]], [["D", "N"], ["V", "V"], ["V"]])
    assert fitted.predict([["the", "can", "dog"], []]) == [["D", "V", "V"], []]


def test_texts_without_words_are_read_by_their_characters() -> None:
    pytest.importorskip("sklearn")
    texts = ["😀 😀 😀", "! ! !"] * 8
    baseline, _ = fit_label_baseline(texts, ["happy", "loud"] * 8)
    assert baseline.name == "TF-IDF of characters + logistic regression"
    assert baseline.predict(["😀 😀", "! !"]) == ["happy", "loud"]
