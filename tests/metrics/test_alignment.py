from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken.data.text.pairs import Alignment
from harken.errors import UserError
from harken.metrics import alignment_error_rate, alignment_score, links_from_attention, merge_subwords

link_sets = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


def gold(line: str) -> Alignment:
    return Alignment.from_pharaoh(line)


def test_counts_over_all_sentences_by_hand() -> None:
    # A: 3 + 1 = 4 links, S: 2 + 2 = 4; in S: 1 + 1 = 2, in P: 2 + 1 = 3
    score = alignment_score([{(0, 0), (1, 2), (3, 3)}, {(1, 0)}], [gold("0-0 1-1 1?2"), gold("0-1 1-0")])
    assert score.error_rate == pytest.approx(1 - (2 + 3) / (4 + 4))
    assert score.precision == pytest.approx(3 / 4)
    assert score.recall == pytest.approx(2 / 4)


def test_a_link_given_twice_counts_once() -> None:
    assert alignment_error_rate([[(0, 0), (0, 0)]], [gold("0-0")]) == 0.0


def test_nothing_to_find() -> None:
    assert alignment_error_rate([set()], [gold("")]) == 0.0
    assert alignment_error_rate([set()], [gold("0-0")]) == 1.0


@given(guess=link_sets, sure=link_sets, extra=link_sets)
def test_error_rate_is_a_share_and_zero_for_the_truth(
    guess: frozenset[tuple[int, int]], sure: frozenset[tuple[int, int]], extra: frozenset[tuple[int, int]]
) -> None:
    truth = Alignment(sure, sure | extra)
    assert 0.0 <= alignment_error_rate([guess], [truth]) <= 1.0
    assert alignment_error_rate([sure], [truth]) == 0.0
    assert alignment_error_rate([truth.possible], [truth]) == pytest.approx(0.0)  # possible links cost nothing


def test_lengths_must_match() -> None:
    with pytest.raises(UserError, match="1 predicted and 0 gold"):
        alignment_error_rate([set()], [])


def test_merge_by_hand() -> None:
    # two target words (pieces 0, 1 and piece 2), two source words (pieces 0, 1 and piece 2), EOS column cut off
    weights = [[0.2, 0.3, 0.1], [0.0, 0.4, 0.2], [0.1, 0.0, 0.4]]
    # word 0: mean of (0.5, 0.1) and (0.4, 0.2) = (0.45, 0.15), made to sum to 1; word 1: (0.1, 0.4)
    merged = merge_subwords(weights, [0, 0, 1], [0, 0, 1], n_target=2, n_source=2)
    np.testing.assert_allclose(merged, [[0.75, 0.25], [0.2, 0.8]])


@given(
    data=st.data(), target=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    source=st.lists(st.integers(0, 2), min_size=1, max_size=6),
)  # fmt: skip
def test_merged_rows_sum_to_one(data: st.DataObject, target: list[int], source: list[int]) -> None:
    cells = st.floats(0.01, 1.0)
    weights = [[data.draw(cells) for _ in source] for _ in target]
    merged = merge_subwords(weights, target, source, n_target=4, n_source=3)
    for word, row in enumerate(merged):
        assert row.sum() == pytest.approx(1.0 if word in target else 0.0)
        assert all(row[other] == 0.0 for other in range(3) if other not in source)


def test_one_piece_a_word_changes_nothing() -> None:
    weights = np.array([[0.7, 0.3], [0.1, 0.9]])
    np.testing.assert_allclose(merge_subwords(weights, [0, 1], [0, 1], 2, 2), weights)


def test_links_take_the_leftmost_of_equals_and_skip_empty_rows() -> None:
    assert links_from_attention([[0.5, 0.5], [0.0, 0.0], [0.1, 0.2]]) == [(0, 0), (1, 2)]
    assert links_from_attention(np.zeros((0, 3))) == []


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(UserError, match=r"shape \(1, 2\) but there are 2 target x 2 source subwords"):
        merge_subwords([[0.5, 0.5]], [0, 1], [0, 1], 2, 2)
    with pytest.raises(UserError, match="word 5 of 2"):
        merge_subwords([[0.5, 0.5]], [0], [0, 5], 1, 2)
