"""Additive attention with all queries at once is additive attention with one after the other."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import AdditiveScore, Attention, additive_attend, additive_attend_with_weights, causal_mask, length_mask
from harken.nn.attention.functional import attend
from harken.nn.attention.head_scores import AdditiveHeads


def one_by_one(score: AdditiveScore, states: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    attention, keys = Attention(score), score.keys(memory)
    pairs = [attention(state, keys, memory, mask) for state in states.unbind(1)]
    return torch.stack([context for context, _ in pairs], 1), torch.stack([weights for _, weights in pairs], 1)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(1, 6), st.integers(1, 7), st.integers(1, 5), st.booleans(), st.integers(0, 99))
def test_it_is_the_score_and_the_softmax(
    batch: int, targets: int, sources: int, width: int, masked: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    score = AdditiveScore(width, width).double()
    states, memory = torch.randn(batch, targets, width).double(), torch.randn(batch, sources, width).double()
    mask = length_mask(torch.randint(0, sources + 1, (batch,)), sources) if masked else None
    right, shares = one_by_one(score, states, memory, mask)
    seen = None if mask is None else mask[:, None]
    parts = score.query(states), score.keys(memory), score.energy.weight[0], memory
    context = additive_attend(*parts, seen)
    slow, weights = additive_attend_with_weights(*parts, seen)
    assert torch.allclose(context, right) and torch.allclose(slow, right) and torch.allclose(weights, shares)
    wanted = [*score.parameters()]
    grad_output = torch.randn_like(right)
    gradients = torch.autograd.grad(context, wanted, grad_output)
    for found, exact in zip(gradients, torch.autograd.grad(right, wanted, grad_output), strict=True):
        assert torch.allclose(found, exact)


def test_queries_that_see_nothing_get_nothing_and_the_future_is_hidden() -> None:
    torch.manual_seed(1)
    parts = [torch.randn(shape, requires_grad=True) for shape in ((2, 4, 3), (2, 4, 3), (3,), (2, 4, 5))]
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[0, 2] = False
    context, weights = additive_attend_with_weights(*parts, mask, causal=True)
    assert (context[0, 2] == 0).all() and (weights[0, 2] == 0).all()
    assert (weights[:, ~causal_mask(4)] == 0).all()
    assert weights[1].sum(-1).tolist() == pytest.approx([1.0] * 4)
    assert all(part.isfinite().all() for part in torch.autograd.grad(context.sum(), parts))


def test_heads_have_a_vector_each_and_are_those_of_the_transformer() -> None:
    torch.manual_seed(2)
    heads = AdditiveHeads(heads=3, width=4)
    query, key, value = (torch.randn(2, 3, size, 4) for size in (5, 6, 6))
    query, key = heads.queries(query), heads.keys(key)
    mask = length_mask(torch.tensor([6, 2]), 6)[:, None, None]
    found = additive_attend(query, key, heads.energy, value, mask)
    assert torch.allclose(found, attend(query, key, value, mask, score=heads), atol=1e-6)


def test_dropout_zeroes_weights() -> None:
    torch.manual_seed(3)
    parts = torch.randn(1, 50, 3), torch.randn(1, 40, 3), torch.randn(3)
    weights = additive_attend_with_weights(*parts, torch.eye(40)[None])[1]
    shown = additive_attend(*parts, torch.eye(40)[None], dropout=0.5)
    stayed = shown != 0
    assert stayed.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert torch.allclose(shown, weights * stayed * 2)
