"""Pooling a set into one vector: its formula, and what must not matter."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import AttentionPooling
from harken.nn.attention.scores import SCORES

each_score = pytest.mark.parametrize("score", SCORES)


def build(score: str, hard: bool = False) -> AttentionPooling:
    torch.manual_seed(1)
    return AttentionPooling(4, score, hard).double()


@each_score
@settings(deadline=None, max_examples=10)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_each_set_is_as_if_alone_and_unpadded(score: str, lengths: list[int]) -> None:
    pooling = build(score)
    values = torch.randn(len(lengths), 5, 4, dtype=torch.float64, requires_grad=True)
    found, weights = pooling(values, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        assert (weights[row, length:] == 0).all()
        if length:
            alone, shares = pooling(values[row : row + 1, :length])
            assert torch.allclose(found[row], alone[0], rtol=0, atol=1e-12)
            assert torch.allclose(shares.sum(), torch.ones((), dtype=torch.float64))
            assert torch.allclose(found[row], weights[row] @ values[row], rtol=0, atol=1e-12)
        else:
            assert (found[row] == 0).all()
    gradients = torch.autograd.grad(found.square().sum(), [values, *pooling.parameters()])
    assert not any(gradient.isnan().any() for gradient in gradients)


@each_score
@given(st.integers(1, 5), st.sampled_from([torch.float64, torch.float32]))
@torch.no_grad()
def test_weights_are_the_softmax_of_e9(score: str, members: int, dtype: torch.dtype) -> None:
    pooling = build(score).to(dtype)
    values, query, rule = torch.randn(1, members, 4, dtype=dtype), pooling.query, pooling.attention.score
    formulas: dict[str, Callable[[Tensor], Tensor]] = {
        "dot": lambda member: query @ member,
        "scaled": lambda member: query @ member / 2,
        "cosine": lambda member: query @ member / (query.norm() * member.norm() * rule.log_temperature.exp()),
        "multiplicative": lambda member: query @ rule.weight.weight @ member,
        "additive": lambda member: rule.energy(torch.tanh(rule.memory(member) + rule.query(query)))[0],
    }
    right = torch.stack([formulas[score](member) for member in values[0]]).softmax(0)
    vector, weights = pooling(values)
    within = 1e-9 if dtype == torch.float64 else 1e-5
    assert torch.allclose(weights[0], right, rtol=0, atol=within)
    assert torch.allclose(vector[0], right @ values[0], rtol=0, atol=within)


@each_score
def test_gradcheck(score: str) -> None:
    pooling, values = build(score), torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([3, 2])
    assert torch.autograd.gradcheck(
        lambda *_: pooling(values, lengths), (values, *pooling.parameters()), fast_mode=True
    )


@each_score
def test_order_is_of_no_account(score: str) -> None:
    pooling, values = build(score), torch.randn(2, 5, 4, dtype=torch.float64)
    order = [3, 0, 4, 1, 2]
    assert torch.allclose(pooling(values)[0], pooling(values[:, order])[0], rtol=0, atol=1e-12)


@each_score
def test_hard_pooling_picks_one_member_outside_training(score: str) -> None:
    pooling, values = build(score, hard=True), torch.randn(2, 5, 4, dtype=torch.float64)
    soft = pooling(values)[1]
    found, weights = pooling.eval()(values)
    assert torch.equal(weights.argmax(-1), soft.argmax(-1))
    assert torch.equal(found, values[torch.arange(2), soft.argmax(-1)])


def test_unknown_score() -> None:
    with pytest.raises(ValueError, match="no score called 'sum'; choose one of dot, scaled"):
        AttentionPooling(4, "sum")
