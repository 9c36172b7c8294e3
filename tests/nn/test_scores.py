"""Scores against their formulas (E9), and attention over a memory (E8)."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.nn import AdditiveScore, Attention, DotScore, MultiplicativeScore, length_mask

sizes = st.integers(1, 5)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@settings(deadline=None, max_examples=15)
@given(sizes, sizes, sizes, sizes)
def test_scores_are_their_formulas(batch: int, source: int, width: int, memory_width: int) -> None:
    query, memory, alike = draw(batch, width), draw(batch, source, memory_width), draw(batch, source, width)
    dot = DotScore(width, width)
    multiplicative = MultiplicativeScore(width, memory_width).double()
    additive = AdditiveScore(width, memory_width).double()
    by_dot = dot(query, dot.keys(alike))
    by_product = multiplicative(query, multiplicative.keys(memory))
    by_sum = additive(query, additive.keys(memory))
    for row in range(batch):
        for place in range(source):
            s, h = query[row], memory[row, place]
            assert torch.isclose(by_dot[row, place], s.dot(alike[row, place]), rtol=0, atol=1e-9)
            assert torch.isclose(by_product[row, place], s @ multiplicative.weight.weight @ h, rtol=0, atol=1e-9)
            # the concatenated form v^T tanh(W [s; h] + b) is the same function
            joined = torch.cat((additive.query.weight, additive.memory.weight), 1)
            energy = torch.tanh(joined @ torch.cat((s, h)) + additive.memory.bias)
            assert torch.isclose(by_sum[row, place], additive.energy.weight[0] @ energy, rtol=0, atol=1e-9)


def test_additive_width_of_its_own() -> None:
    score = AdditiveScore(3, 4, width=7)
    assert score.energy.weight.shape == (1, 7)
    assert score(torch.randn(2, 3), score.keys(torch.randn(2, 5, 4))).shape == (2, 5)


def test_dot_refuses_unequal_widths() -> None:
    with pytest.raises(ValueError, match="equal widths, not 3 and 4"):
        DotScore(3, 4)


@pytest.mark.parametrize("kind", [DotScore, MultiplicativeScore, AdditiveScore])
@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_attention_is_e8(kind: type, lengths: list[int]) -> None:
    attention = Attention(kind(3, 3)).double()
    query, memory = draw(len(lengths), 3), draw(len(lengths), 5, 3)
    mask = length_mask(torch.tensor(lengths), 5)
    keys = attention.score.keys(memory)
    context, weights = attention(query, keys, memory, mask)
    assert (weights[~mask] == 0).all()
    assert torch.allclose(weights.sum(-1), torch.ones(len(lengths), dtype=torch.float64), rtol=0, atol=1e-12)
    scores = attention.score(query, keys)
    for row, length in enumerate(lengths):
        share = scores[row, :length].exp() / scores[row, :length].exp().sum()
        assert torch.allclose(weights[row, :length], share, rtol=0, atol=1e-9)
        average = sum(share[place] * memory[row, place] for place in range(length))
        assert torch.allclose(context[row], average, rtol=0, atol=1e-9)


def test_attention_without_a_mask_sees_all() -> None:
    attention = Attention(DotScore(2, 2))
    query, memory = torch.randn(3, 2), torch.randn(3, 4, 2)
    everything = attention(query, memory, memory, torch.ones(3, 4, dtype=torch.bool))
    for found, right in zip(attention(query, memory, memory, None), everything, strict=True):
        assert torch.equal(found, right)
