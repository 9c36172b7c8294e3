"""The bag of n-grams: its features are those of a count by hand, its weights those of scikit-learn."""

import math

import pytest
import torch

from harken.models.heads.ngrams import NGrams, largest_order

TEXTS = [[5, 6, 7, 3], [6, 5, 3], [5, 6, 5, 6, 3], [7, 3], [9, 1, 6, 3], [9, 9, 6, 3]]
LABELS = torch.tensor([0, 1, 0, 1, 1, 1])


def padded(texts: list[list[int]], width: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
    return ids, torch.tensor([len(text) for text in texts])


def sets_of(text: list[int], order: int) -> set[tuple[int, ...]]:
    """The n-grams of a text with its begin that hold a word."""
    ids = [2, *text]
    grams = {tuple(ids[start : start + n]) for n in range(1, order + 1) for start in range(len(ids) - n + 1)}
    return {gram for gram in grams if max(gram) >= 4}


@pytest.mark.parametrize("order", [1, 2, 3])
def test_features_are_those_counted_by_hand(order: int) -> None:
    model = NGrams.learn([padded(TEXTS)], size=10, order=order, labels=2)
    bags = [sets_of(text, order) for text in TEXTS]
    frequency = {gram: sum(gram in bag for bag in bags) for bag in bags for gram in bag}
    known = {gram: count for gram, count in frequency.items() if count >= 2}
    assert len(model.keys) == len(known)
    _, values = model.features(*padded(TEXTS))
    for row, bag in zip(values, bags, strict=True):
        idf = [1 + math.log(7 / (1 + known[gram])) for gram in bag if gram in known]
        norm = math.sqrt(sum(value * value for value in idf)) or 1.0
        assert sorted(row[row > 0].tolist()) == pytest.approx(sorted(value / norm for value in idf))


def test_padding_and_neighbours_change_nothing() -> None:
    model = NGrams.learn([padded(TEXTS)], size=10, order=3, labels=2)
    model.fit(model.matrix([padded(TEXTS)]), LABELS, strength=5.0)
    together = model(*padded(TEXTS, 12))
    for row, text in enumerate(TEXTS):
        assert torch.allclose(model(torch.tensor([text]), None)[0], together[row], atol=1e-6)
    assert torch.equal(model(torch.tensor([[1, 3]]), None)[0], model.bias)  # nothing that is known


def test_weights_are_those_of_logistic_regression() -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 30, (120, 9), generator=generator)
    labels = (ids < 12).sum(1).clamp(1, 4) - 1
    batch = ids, torch.full((120,), 9)
    model = NGrams.learn([batch], size=30, order=2, labels=4)
    texts = model.matrix([batch])
    model.fit(texts, labels, strength=2.0)
    dense = texts.times(torch.eye(len(model.keys)))
    peer = linear.LogisticRegression(C=2.0, max_iter=2000, tol=1e-8).fit(dense.numpy(), labels.numpy())
    peer_probabilities = torch.from_numpy(peer.predict_proba(dense.numpy())).float()
    assert torch.allclose(torch.softmax(model(*batch), -1), peer_probabilities, atol=2e-3)
    assert torch.allclose(texts.transposed(len(model.keys)).times(torch.eye(120)), dense.T)


def test_class_weights_count_as_repeated_examples() -> None:
    batch = padded(TEXTS)
    weighted, repeated = (NGrams.learn([batch], size=10, order=1, labels=2) for _ in range(2))
    texts = weighted.matrix([batch])
    weighted.fit(texts, LABELS, 1.0, torch.tensor([3.0, 1.0]))
    often = [0, 0, 0, 1, 2, 2, 2, 3, 4, 5]
    repeated.fit(repeated.matrix([padded([TEXTS[row] for row in often])]), LABELS[often], 1.0)
    assert torch.allclose(weighted(*batch), repeated(*batch), atol=1e-3)


def test_numbers_of_n_grams_fit_64_bits() -> None:
    order = largest_order(60_000, 5)
    model = NGrams(0, 60_000, 5, 2)
    assert model.order == order == 3
    keys, _ = model.numbers(torch.full((1, 4), 59_999), None)
    assert keys.min() >= -1 and keys.max() > 2**46
    assert model(torch.full((1, 4), 59_999), None).tolist() == [[0.0, 0.0]]  # an empty vocabulary
