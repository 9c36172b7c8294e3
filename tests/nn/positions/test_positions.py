"""Masks and absolute positions by their equations."""

import math
import weakref

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harken.nn import (
    EncoderStack,
    LearnedPositions,
    RelativePositions,
    SinusoidalPositions,
    attend_with_weights,
    causal_mask,
    length_mask,
)
from harken.nn.attention.head_scores import ScaledHeads


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4), st.integers(1, 7))
def test_length_mask(lengths: list[int], size: int) -> None:
    mask = length_mask(torch.tensor(lengths), size)
    assert mask.tolist() == [[place < length for place in range(size)] for length in lengths]


@given(st.integers(1, 6))
def test_causal_mask(size: int) -> None:
    assert causal_mask(size).tolist() == [[column <= row for column in range(size)] for row in range(size)]


@given(st.integers(1, 6), st.integers(0, 6))
def test_causal_mask_aligns_queries_to_the_end_of_the_keys(targets: int, earlier: int) -> None:
    sources = targets + earlier
    right = [[column <= row + earlier for column in range(sources)] for row in range(targets)]
    assert causal_mask(targets, sources).tolist() == right
    assert causal_mask(targets, sources).equal(causal_mask(sources)[earlier:])


def test_one_query_sees_all_of_five_keys() -> None:
    assert causal_mask(1, 5).tolist() == [[True] * 5]


@given(st.integers(1, 8).map(lambda half: 2 * half), st.integers(0, 40), st.integers(1, 30))
def test_positions_are_sines_and_cosines(width: int, start: int, length: int) -> None:
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


def test_a_table_that_a_captured_graph_reads_stays_when_a_larger_one_replaces_it() -> None:
    positions = SinusoidalPositions(6, length=4)
    table, values = weakref.ref(positions.table), positions.table.clone()
    positions(9)
    assert len(positions.table) > 4
    assert table() is not None and torch.equal(table(), values)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("kind", ["sinusoidal", "rotary"])
def test_a_table_that_grew_in_inference_mode_can_be_trained_with(kind: str) -> None:
    torch.manual_seed(1)
    stack = EncoderStack(layers=1, width=4, heads=2, feedforward=4, positions=kind)
    long, short = torch.randn(1, 600, 4), torch.randn(1, 5, 4)
    with torch.inference_mode():
        inside = stack(long)
    outside = stack(long)
    assert torch.allclose(inside, outside, atol=1e-6)
    for values in (long, short):
        stack.zero_grad()
        stack(values).square().sum().backward()
        gradients = [parameter.grad for parameter in stack.parameters()]
        assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_relative_positions_sum_small_bfloat16_weights_in_float32() -> None:
    """4,096 keys beyond the clip have one bucket: a sum of 1/4096 in bfloat16 stalls far below 1."""
    positions = RelativePositions(4, clip=1).bfloat16()
    positions.values.data.fill_(1.0)
    rows = torch.zeros(1, 4096, dtype=torch.long)
    weights = torch.full((1, 1, 1, 4096), 1 / 4096, dtype=torch.bfloat16)
    found = positions.weighted_values(weights, rows)
    assert found.dtype == torch.bfloat16
    assert found.flatten().tolist() == [1.0] * 4
    stalled = torch.zeros(1, dtype=torch.bfloat16)
    for _ in range(4096):
        stalled += weights[0, 0, 0, :1]
    assert stalled.item() < 0.2


def test_relative_positions_are_their_equation() -> None:
    """e_ij = q_i . (k_j + a^K) / sqrt(K), z_i = sum_j w_ij (v_j + a^V), with a vector for every pair."""
    torch.manual_seed(2)
    positions = RelativePositions(3, clip=2).double()
    query, key, value = (torch.randn(1, 2, 6, 3, dtype=torch.float64) for _ in range(3))
    functions = positions.functions(ScaledHeads(2, 3), 6, 6)
    context, weights = attend_with_weights(query, key, value, causal=True, **functions._asdict())
    for i in range(6):
        apart = (torch.arange(i + 1) - i).clamp(-2, 2) + 2
        scores = (query[0, :, i, None] * (key[0, :, : i + 1] + positions.keys[apart])).sum(-1) / math.sqrt(3)
        right = scores.softmax(-1)  # (N, i + 1)
        assert torch.allclose(weights[0, :, i, : i + 1], right)
        summed = (right[..., None] * (value[0, :, : i + 1] + positions.values[apart])).sum(1)
        assert torch.allclose(context[0, :, i], summed)
