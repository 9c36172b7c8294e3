"""Pooling a set into one vector: its formula, and what must not matter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.nn import AttentionPooling
from harken.nn.scores import SCORES

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
