"""The n-gram model against a slow one that counts in dictionaries, as Chen and Goodman (1999) write it."""

import json
from collections import Counter

import numpy as np
import pytest

from harken.models.language.ngram import NGram

SIZE = 7


def text(length: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    words = [3]
    for _ in range(length - 1):
        words.append(int((words[-1] + random.choice([0, 1, 2], p=[0.2, 0.5, 0.3])) % 4 + 3))
    return np.array(words)


class Slow:
    """Interpolated Kneser-Ney with three discounts, one dictionary an order."""

    def __init__(self, ids: np.ndarray, order: int) -> None:
        words = [int(ids[0])] * (order - 1) + [int(word) for word in ids[1:]]
        grams = {
            n: Counter(tuple(words[i - n + 1 : i + 1]) for i in range(n - 1, len(words))) for n in range(1, order + 1)
        }
        self.counts = {order: grams[order]}
        for n in range(1, order):
            self.counts[n] = Counter(gram[1:] for gram in grams[n + 1])
        self.order = order

    def discount(self, n: int, count: int) -> float:
        seen = Counter(self.counts[n].values())
        if not (seen[1] and seen[2] and seen[3]):
            return 0.5 if count else 0.0
        y = seen[1] / (seen[1] + 2 * seen[2])
        values = [0, 1 - 2 * y * seen[2] / seen[1], 2 - 3 * y * seen[3] / seen[2], 3 - 4 * y * seen[4] / seen[3]]
        number = min(count, 3)
        return min(max(values[number], 0.0), number)

    def chance(self, context: tuple[int, ...], word: int) -> float:
        n = len(context) + 1
        below = 1 / SIZE if n == 1 else self.chance(context[1:], word)
        following = {gram: count for gram, count in self.counts[n].items() if gram[:-1] == context}
        total = sum(following.values())
        if not total:
            return below
        count = following.get((*context, word), 0)
        kept = max(count - self.discount(n, count), 0.0) / total
        return kept + sum(self.discount(n, c) for c in following.values()) / total * below


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_slow_model(order: int) -> None:
    train, test = text(200), text(30, seed=5)
    test[10] = 1  # never seen
    found = NGram.train(train, SIZE, order).log_probabilities(test)
    slow, padded = Slow(train, order), [3] * (order - 1) + [int(word) for word in test[1:]]
    wanted = [
        slow.chance(tuple(padded[i - order + 1 : i]), padded[i]) if order > 1 else slow.chance((), padded[i])
        for i in range(order - 1, len(padded))
    ]
    assert np.allclose(np.exp(found), wanted, atol=1e-12)


def test_probabilities_sum_to_one() -> None:
    model = NGram.train(text(300), SIZE, 3)
    for context in ([3, 4], [5, 5], [1, 1], [6, 0]):
        chances = [np.exp(model.log_probabilities(np.array([3, *context, word]))[-1]) for word in range(SIZE)]
        assert np.isclose(sum(chances), 1)


def test_longer_contexts_predict_better_where_there_is_something_to_know() -> None:
    train, test = text(3000), text(500, seed=9)
    one, two = (NGram.train(train, SIZE, order).log_probabilities(test).mean() for order in (1, 2))
    assert two > one + 0.2


def test_a_text_of_one_word() -> None:
    assert np.isfinite(NGram.train(np.array([3, 4]), SIZE, 5).log_probabilities(np.array([3, 4, 5]))).all()


@pytest.mark.parametrize("order", [1, 2, 3])
def test_probabilities_over_symbols_and_the_end_sum_to_one_after_any_history(order: int) -> None:
    model = NGram.from_texts([[1, 2, 3], [3, 3], [], [1, 2]], symbols=4, order=order)
    for history in [(), (1,), (1, 2), (4, 4, 4), (3, 3)]:
        assert sum(np.exp(model.log_probability(symbol, history)) for symbol in range(5)) == pytest.approx(1.0)


def test_texts_by_hand() -> None:
    model = NGram.from_texts([[1, 1], [1, 2]], symbols=2, order=2)
    # bigrams: ^1 twice, 11 1$ 12 2$ once each; all discounts are 1/2
    # distinct bigrams that end in 1: ^1 11, in 2: 12, in $: 1$ 2$; unigrams: (n - 1/2) / 5 + 3/2 / 5 / 3
    two, end = (1 - 0.5) / 5 + 0.3 / 3, (2 - 0.5) / 5 + 0.3 / 3
    assert np.exp(model.log_probability(2, (1,))) == pytest.approx((1 - 0.5) / 3 + 1.5 / 3 * two)
    assert np.exp(model.log_end((1, 2))) == pytest.approx(0.5 + 0.5 * end)
    assert np.exp(model.log_probability(1, ())) == pytest.approx((2 - 0.5) / 2 + 0.25 * end)


def test_one_text_of_many_is_the_same_as_one_long_text_but_for_its_ends() -> None:
    words = (text(4000) - 2).tolist()  # 1 to 4
    many, one = NGram.from_texts([words], symbols=4, order=3), NGram.train(text(4000) - 2, 5, 3)
    for position in (50, 120, 333):
        context = tuple(words[position - 2 : position])
        expected = one.log_probabilities(np.array([*context[:1], *context, words[position]]))[-1]
        assert many.log_probability(words[position], context) == pytest.approx(expected, abs=0.02)


def test_files_keep_the_model_and_those_of_earlier_versions_are_read() -> None:
    model = NGram.from_texts([[1, 2, 1], [2, 1], []], symbols=3, order=3)
    again = NGram.from_json(model.to_json())
    stored = json.loads(model.to_json())
    stored["counts"] += [[[], [[1, 3], [2, 2], [0, 3]]], [[1], [[2, 1], [0, 2]]]]  # shorter histories, as once written
    for other in (again, NGram.from_json(json.dumps(stored))):
        for history in [(), (1,), (2, 1), (3, 3)]:
            for symbol in range(4):
                assert other.log_probability(symbol, history) == model.log_probability(symbol, history)
