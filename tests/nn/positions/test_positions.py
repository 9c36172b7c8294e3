"""Masks by their definition; positions by E11, or learned as far as they go."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.nn import LearnedPositions, SinusoidalPositions, causal_mask, length_mask


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(1, 7))
def test_length_mask(lengths: list[int], size: int) -> None:
    mask = length_mask(torch.tensor(lengths), size)
    assert mask.tolist() == [[place < length for place in range(size)] for length in lengths]


@given(st.integers(1, 6))
def test_causal_mask(size: int) -> None:
    assert causal_mask(size).tolist() == [[column <= row for column in range(size)] for row in range(size)]


@given(st.integers(1, 8).map(lambda half: 2 * half), st.integers(0, 40), st.integers(1, 30))
def test_positions_are_e11(width: int, start: int, length: int) -> None:
    """Whatever the table's first size, so also where it has to grow."""
    found = SinusoidalPositions(width, length=8)(length, start)
    assert found.shape == (length, width)
    for row in range(length):
        for k in range(width // 2):
            angle = (start + row) / 10000 ** (2 * k / width)
            assert found[row, 2 * k].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert found[row, 2 * k + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_growing_changes_no_row_and_saves_nothing() -> None:
    positions = SinusoidalPositions(6, length=4)
    before = positions(4).clone()
    assert positions(20)[:4].equal(before)
    assert positions(4).equal(before)
    assert positions.state_dict() == {}
    assert list(positions.parameters()) == []


def test_positions_follow_the_module_when_they_grow() -> None:
    positions = SinusoidalPositions(6, length=4).double()
    assert positions(9).dtype == torch.float64


@given(st.integers(1, 6), st.integers(0, 6))
def test_learned_positions_are_rows_of_a_table(length: int, start: int) -> None:
    positions = LearnedPositions(3, 8)
    if start + length <= 8:
        assert torch.equal(positions(length, start), positions.embedding.weight[start : start + length])
    else:
        message = f"a sequence of {start + length} tokens is too long: positions were learned for 8"
        with pytest.raises(ValueError, match=message):
            positions(length, start)
