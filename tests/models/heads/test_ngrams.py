"""The bag of n-grams: its features are those of a count by hand, its weights those of scikit-learn."""

import math
import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from harken.models.heads.ngrams import NGrams, hashes_of, log_ratios

TEXTS = ["the good film", "Good film !", "the  bad story: bad", "never (bad)", "日本語 の film", "l'été est bon"]
LABELS = np.array([0, 0, 1, 1, 0, 1])


def words_of(text: str) -> Counter[str]:
    words = re.findall(r"\w+", text.lower())
    marked = ["^", *words] if words else []
    pairs, triples = pairwise(marked), zip(marked, marked[1:], marked[2:], strict=False)
    return Counter([*words, *map(" ".join, [*pairs, *triples])])


def characters_of(text: str) -> Counter[str]:
    """N-grams of the pieces between spaces, each with a space on either side, of which neighbours share one."""
    spaced = f" {' '.join(text.lower().split())} "
    grams = [spaced[start : start + n] for n in range(1, 6) for start in range(len(spaced) - n + 1)]
    return Counter(gram for gram in grams if gram != " " and " " not in gram[1:-1])


def test_n_grams_are_those_counted_by_hand() -> None:
    known: dict[int, str] = {}
    for text in [*TEXTS, "", "?", "a b"]:
        for hashes, counts in zip(hashes_of(text), (words_of(text), characters_of(text)), strict=True):
            assert sorted(Counter(hashes.tolist()).values()) == sorted(counts.values())
    for kind, count in enumerate((words_of, characters_of)):
        for gram in {gram for text in TEXTS for gram in count(text)}:
            texts = [text for text in TEXTS if gram in count(text)]
            shared = set.intersection(*(set(hashes_of(text)[kind].tolist()) for text in texts))
            assert shared, gram  # the same number in every text
            if len(shared) == 1:
                assert known.setdefault(shared.pop(), gram) == gram


def test_features_are_those_of_tf_idf_with_a_norm_of_1_for_each_kind() -> None:
    model = NGrams.learn(TEXTS, labels=2)
    dense = model.matrix(TEXTS).times(torch.eye(len(model.keys))).numpy()
    for count in (words_of, characters_of):
        bags = [count(text) for text in TEXTS]
        frequency = Counter(gram for bag in bags for gram in bag)
        for row, bag in zip(dense, bags, strict=True):
            known = [gram for gram in bag if frequency[gram] >= 2]
            values = [(1 + math.log(bag[gram])) * (1 + math.log(7 / (1 + frequency[gram]))) for gram in known]
            norm = math.sqrt(sum(value * value for value in values)) or 1.0
            present = sorted(row[row > 0])
            for value in values:
                assert min(abs(value / norm - other) for other in present) < 1e-5
    assert np.allclose((dense[:4] ** 2).sum(1), 2, atol=1e-5)
    assert np.allclose((dense[5] ** 2).sum(), 1, atol=1e-5)  # none of its words is in another text


def test_neighbours_change_nothing_and_unknown_texts_get_the_bias() -> None:
    model = NGrams.learn(TEXTS, labels=2)
    model.fit(model.matrix(TEXTS), LABELS, strength=5.0)
    together = model.logits(TEXTS)
    assert np.allclose(together, np.concatenate([model.logits([text]) for text in TEXTS]), atol=1e-6)
    assert (together.argmax(1) == LABELS).all()
    bias = torch.log_softmax(model.bias, -1).numpy()
    assert np.allclose(model.logits(["ㄱㄴㄷ", ""]), bias, atol=1e-6)
    empty = NGrams.learn([], labels=3)
    assert np.allclose(empty.logits(["anything"]), -math.log(3), atol=1e-6)


def test_weights_are_those_of_logistic_regression_on_scaled_features() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    numbers = np.random.default_rng(1)
    texts = [" ".join(numbers.choice(list("abcdefghij"), 9)) for _ in range(120)]
    labels = np.array([int(text.count("a") > 0) for text in texts])
    model = NGrams.learn(texts, labels=2)
    matrix = model.matrix(texts)
    model.fit(matrix, labels, strength=2.0)
    dense = matrix.times(torch.eye(len(model.keys))).numpy()  # (N, V)
    inside, outside = ((dense[labels == label] > 0).sum(0) + 1.0 for label in (0, 1))
    scaled = dense * abs(np.log(inside / inside.sum()) - np.log(outside / outside.sum()))
    peer = linear.LogisticRegression(C=4.0, max_iter=5000, tol=1e-8).fit(scaled, labels)  # one weight of two: 2 C
    assert np.allclose(np.exp(model.logits(texts)), peer.predict_proba(scaled), atol=3e-3)
    assert np.allclose(matrix.transposed(len(model.keys)).times(torch.eye(120)), dense.T)


def test_the_fit_is_where_the_gradient_of_three_classes_is_zero() -> None:
    numbers = np.random.default_rng(2)
    texts = [" ".join(numbers.choice(list("abcdefghij"), 9)) for _ in range(120)]
    labels = torch.tensor([min(text.count("a"), 2) for text in texts])
    model = NGrams.learn(texts, labels=3)
    matrix = model.matrix(texts)
    model.fit(matrix, labels.numpy(), strength=2.0)
    dense = matrix.times(torch.eye(len(model.keys)))
    ratios = log_ratios(matrix.transposed(len(model.keys)), torch.nn.functional.one_hot(labels, 3).float())
    scaled = (model.weight / ratios.clamp(min=1e-6)).requires_grad_()

    def loss_of(values: torch.Tensor) -> torch.Tensor:
        logits = dense @ (ratios * values) + model.bias
        return torch.nn.functional.cross_entropy(logits, labels, reduction="sum") + values.square().sum() / 4

    loss = loss_of(scaled)
    for seed in range(5):
        step = 0.05 * torch.randn(scaled.shape, generator=torch.Generator().manual_seed(seed))
        assert loss_of(scaled + step) > loss
    (gradient,) = torch.autograd.grad(loss, scaled)
    assert gradient.abs().max() < 0.02


def test_class_weights_count_as_repeated_examples() -> None:
    weighted, repeated = (NGrams.learn(TEXTS, labels=2) for _ in range(2))
    weighted.fit(weighted.matrix(TEXTS), LABELS, 1.0, torch.tensor([3.0, 1.0]))
    often = [0, 0, 0, 1, 1, 1, 2, 3, 4, 4, 4, 5]
    repeated.fit(repeated.matrix([TEXTS[row] for row in often]), LABELS[often], 1.0)
    assert np.allclose(weighted.logits(TEXTS), repeated.logits(TEXTS), atol=1e-3)


def test_without_characters_the_features_are_those_of_words() -> None:
    model, words = NGrams.learn(TEXTS, labels=2), NGrams.learn(TEXTS, labels=2, characters=False)
    assert words.keys.tolist() == [
        key for key in model.keys.tolist() if key in {*hashes_of(" ".join(TEXTS))[0].tolist()}
    ]
    bags = [words_of(text) for text in TEXTS]
    frequency = Counter(gram for bag in bags for gram in bag)
    assert len(words.keys) == sum(frequency[gram] >= 2 for gram in frequency)
    dense = words.matrix(TEXTS).times(torch.eye(len(words.keys)))
    assert torch.allclose(dense.square().sum(1), torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]), atol=1e-5)
