"""The n-grams beside a classifier: which texts they are learnt from."""

from pathlib import Path

import numpy as np
import pytest

from harken.data.text.examples import Labelled
from harken.tasks.classify import ngrams
from harken.tasks.classify.ngrams import NGRAMS, fit_ngrams, reads_characters


def labelled(texts: list[str], labels: list[str]) -> Labelled:
    return Labelled(texts, labels)


def test_many_texts_are_read_as_a_whole_by_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ngrams, "MAX_CHARACTERS", 300)
    random = np.random.default_rng(1)
    words = [f"word{number}" for number in range(20)]
    texts = [" ".join(random.choice(words, 3)) for _ in range(200)]
    labels = np.array([int("word1 " in f"{text} ") for text in texts])
    parts = labelled(texts, [str(label) for label in labels])
    model = fit_ngrams(parts, labels, parts, labels, None, 2, seed=1)
    assert not model.characters
    assert model.idf.min() == pytest.approx(
        1 + np.log(201 / (1 + max(sum(w in t.split() for t in texts) for w in words)))
    )
    NGRAMS.save(model, tmp_path)
    again = NGRAMS.load(tmp_path)
    assert not again.characters
    assert np.array_equal(again.logits(texts), model.logits(texts))


def test_few_texts_and_texts_without_spaces_are_read_by_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngrams, "MAX_CHARACTERS", 100)
    assert reads_characters(["a good film"] * 9)
    assert not reads_characters(["a good film"] * 10)
    assert reads_characters(["黑猫在花园里睡觉因为今天太阳很好"] * 10)
