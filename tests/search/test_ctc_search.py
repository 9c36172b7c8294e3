"""CTC decoding: prefix search against every path, greedy as the best path, and alignment."""

from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.models.language.ngram import NGram
from harken.search.ctc import align_ctc, best_path, collapse, greedy_ctc, prefix_search


def log_probs(time: int, symbols: int, seed: int, sharp: float = 1.0) -> np.ndarray:
    scores = sharp * np.random.default_rng(seed).normal(size=(time, symbols + 1))
    return scores - np.log(np.exp(scores).sum(1, keepdims=True))


def every_text(values: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each text, by every path."""
    found: dict[tuple[int, ...], float] = defaultdict(float)
    for path in product(range(values.shape[1]), repeat=len(values)):
        found[tuple(collapse(path))] += float(np.exp(values[np.arange(len(values)), list(path)].sum()))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_a_wide_beam_finds_the_best_text_and_its_probability(seed: int) -> None:
    values = log_probs(5, 2, seed)
    texts = every_text(values)
    found = prefix_search(values, beam=1000, nbest=len(texts))
    assert {one.symbols: pytest.approx(np.exp(one.score)) for one in found} == texts
    assert found[0].symbols == max(texts, key=lambda text: texts[text])


@pytest.mark.parametrize("seed", range(6))
def test_with_a_language_model_it_is_exact_too(seed: int) -> None:
    values, weight, bonus = log_probs(5, 2, seed), 0.7, 0.4
    language = NGram.from_texts([[1, 2, 1], [2, 1], [1, 1]], symbols=2, order=3)

    def ranked(text: tuple[int, ...], chance: float) -> float:
        said = sum(language.log_probability(symbol, text[:place]) for place, symbol in enumerate(text))
        return np.log(chance) + weight * (said + language.log_end(text)) + bonus * len(text)

    scores = {text: ranked(text, chance) for text, chance in every_text(values).items()}
    best = prefix_search(values, beam=1000, language=language, weight=weight, bonus=bonus)[0]
    assert best.symbols == max(scores, key=lambda text: scores[text])
    assert best.score == pytest.approx(max(scores.values()))


def test_the_language_model_can_turn_a_close_decision() -> None:
    values = np.log(np.array([[0.1, 0.8, 0.1], [0.1, 0.3, 0.6], [0.8, 0.1, 0.1]]))
    language = NGram.from_texts([[1, 1], [1]] * 20, symbols=2, order=2)
    assert prefix_search(values, beam=20)[0].symbols == (1, 2)
    assert prefix_search(values, beam=20, language=language, weight=1.0)[0].symbols == (1,)


def test_symbols_below_the_threshold_are_not_tried() -> None:
    values = np.log(np.array([[0.5, 0.4, 0.1]]))
    assert {one.symbols for one in prefix_search(values, 10, prune=0.2, nbest=10)} == {(), (1,)}


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 1000))
def test_the_greedy_text_is_that_of_the_best_path_and_its_alignment_is_that_path(
    time: int, symbols: int, seed: int
) -> None:
    values = log_probs(time, symbols, seed, sharp=2.0)
    text = greedy_ctc(values)
    labels = np.zeros(2 * len(text) + 1, dtype=int)
    labels[1::2] = text
    assert labels[best_path(values, text)].tolist() == values.argmax(1).tolist()


@settings(max_examples=30)
@given(st.integers(0, 1000), st.lists(st.integers(1, 3), max_size=4))
def test_an_alignment_is_the_best_path_of_its_text(seed: int, text: list[int]) -> None:
    values = log_probs(7, 3, seed)
    labels = np.zeros(2 * len(text) + 1, dtype=int)
    labels[1::2] = text
    path = labels[best_path(values, text)]
    assert collapse(path.tolist()) == text
    score = values[np.arange(7), path].sum()
    paths = (list(path) for path in product(range(4), repeat=7) if collapse(path) == text)
    assert score == pytest.approx(max(values[np.arange(7), one].sum() for one in paths))
    spans = align_ctc(values, text)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    assert all(span.start < span.end for span in spans)


def test_an_alignment_of_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="2 frames are too few for 2 symbols"):
        align_ctc(log_probs(2, 2, 0), [1, 1])
