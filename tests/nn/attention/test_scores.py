"""Scores against their formulas, and attention over a memory."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.nn import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    MultiplicativeScore,
    ScaledDotScore,
    length_mask,
    masked_softmax,
)

sizes = st.integers(1, 5)


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@settings(deadline=None, max_examples=15)
@given(sizes, sizes, sizes, sizes)
def test_scores_are_their_formulas(batch: int, source: int, width: int, memory_width: int) -> None:
    query, memory, alike = draw(batch, width), draw(batch, source, memory_width), draw(batch, source, width)
    dot, scaled, cosine = DotScore(width, width), ScaledDotScore(width, width), CosineScore(width, width, 0.3).double()
    multiplicative = MultiplicativeScore(width, memory_width).double()
    additive = AdditiveScore(width, memory_width).double()
    by_dot, by_scaled = dot(query, dot.keys(alike)), scaled(query, scaled.keys(alike))
    by_cosine = cosine(query, cosine.keys(alike))
    by_product = multiplicative(query, multiplicative.keys(memory))
    by_sum = additive(query, additive.keys(memory))
    for row in range(batch):
        for place in range(source):
            s, h = query[row], memory[row, place]
            assert torch.isclose(by_dot[row, place], s.dot(alike[row, place]), rtol=0, atol=1e-9)
            assert torch.isclose(by_scaled[row, place], s.dot(alike[row, place]) / width**0.5, rtol=0, atol=1e-9)
            angle = s.dot(alike[row, place]) / (s.norm() * alike[row, place].norm())
            assert torch.isclose(by_cosine[row, place], angle / 0.3, rtol=0, atol=1e-6)  # 0.3 was float32 once
            assert torch.isclose(by_product[row, place], s @ multiplicative.weight.weight @ h, rtol=0, atol=1e-9)
            # the concatenated form v^T tanh(W [s; h] + b) is the same function
            joined = torch.cat((additive.query.weight, additive.memory.weight), 1)
            energy = torch.tanh(joined @ torch.cat((s, h)) + additive.memory.bias)
            assert torch.isclose(by_sum[row, place], additive.energy.weight[0] @ energy, rtol=0, atol=1e-9)


def test_additive_width_of_its_own() -> None:
    score = AdditiveScore(3, 4, width=7)
    assert score.energy.weight.shape == (1, 7)
    assert score(torch.randn(2, 3), score.keys(torch.randn(2, 5, 4))).shape == (2, 5)


@pytest.mark.parametrize("kind", [DotScore, ScaledDotScore, CosineScore])
def test_dot_refuses_unequal_widths(kind: type) -> None:
    with pytest.raises(ValueError, match="equal widths, not 3 and 4"):
        kind(3, 4)


def test_the_cosine_score_learns_its_temperature_and_bears_a_zero_vector() -> None:
    score = CosineScore(3, 3)
    memory = torch.randn(2, 4, 3)
    memory[0, 1] = 0
    found = score(torch.randn(2, 3), score.keys(memory.requires_grad_()))
    found.square().sum().backward()
    assert score.log_temperature.grad.abs() > 0
    assert found[0, 1] == 0
    assert not memory.grad.isnan().any()


def test_coverage_enters_the_additive_score() -> None:
    score = AdditiveScore(3, 4, coverage=True).double()
    query, memory, covered = draw(2, 3), draw(2, 5, 4), draw(2, 5)
    found = score(query, score.keys(memory), covered)
    for row in range(2):
        for place in range(5):
            inner = score.memory(memory[row, place]) + score.query.weight @ query[row]
            inner = inner + score.coverage.weight[:, 0] * covered[row, place]
            assert torch.isclose(found[row, place], score.energy.weight[0] @ torch.tanh(inner), rtol=0, atol=1e-9)
    assert not torch.allclose(found, score(query, score.keys(memory)))
    assert [*AdditiveScore(3, 4).state_dict()] == ["memory.weight", "memory.bias", "query.weight", "energy.weight"]


@pytest.mark.parametrize("kind", [DotScore, ScaledDotScore, MultiplicativeScore, AdditiveScore, CosineScore])
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


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=6), st.data())
def test_hard_lookup_is_the_limit_of_soft(values: list[float], data: st.DataObject) -> None:
    scores = torch.tensor([round(value, 1) for value in values], dtype=torch.float64)
    mask = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    hard, cold = masked_softmax(scores, mask, hard=True), masked_softmax(scores / 1e-3, mask)
    assert torch.allclose(hard, cold, rtol=0, atol=1e-9)
    assert (hard[~mask] == 0).all()
    assert hard.sum().item() == pytest.approx(1.0 if mask.any() else 0.0)


@pytest.mark.parametrize("kind", [DotScore, AdditiveScore])
def test_a_row_that_sees_nothing_gives_no_nan(kind: type) -> None:
    attention, memory = Attention(kind(3, 3)).double(), draw(2, 4, 3).requires_grad_()
    mask = length_mask(torch.tensor([0, 2]), 4)
    context, weights = attention(draw(2, 3), attention.score.keys(memory), memory, mask)
    assert (context[0] == 0).all()
    assert (weights[0] == 0).all()
    (gradient,) = torch.autograd.grad(context.square().sum(), memory)
    assert not gradient.isnan().any()
    assert (gradient[0] == 0).all()


def test_hard_attention_is_for_evaluation() -> None:
    attention = Attention(DotScore(3, 3), hard=True)
    query, memory = torch.randn(2, 3), torch.randn(2, 4, 3)
    assert attention(query, memory, memory, None)[1].max() < 1
    context, weights = attention.eval()(query, memory, memory, None)
    assert weights.sort(-1).values.tolist() == [[0.0, 0.0, 0.0, 1.0]] * 2
    assert torch.equal(context, memory[torch.arange(2), weights.argmax(-1)])
