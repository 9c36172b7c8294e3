"""The n-gram model against a slow one that counts in dictionaries, as Chen and Goodman (1999) write it."""

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
def test_it_is_the_definition(order: int) -> None:
    train, test = text(200), text(30, seed=5)
    test[10] = 1  # never seen
    found = NGram.train(train, SIZE, order).log_probabilities(test)
    slow, padded = Slow(train, order), [3] * (order - 1) + [int(word) for word in test[1:]]
    wanted = [
        slow.chance(tuple(padded[i - order + 1 : i]), padded[i]) if order > 1 else slow.chance((), padded[i])
        for i in range(order - 1, len(padded))
    ]
    assert np.allclose(np.exp(found), wanted, atol=1e-12)


def test_what_may_follow_sums_to_one() -> None:
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
