"""`attend` equals `attend_with_weights` in values and gradients; no gradient reaches the future."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import attend, attend_with_weights, causal_mask, masked_softmax


def inputs(shape: tuple[int, ...], target: int, source: int, width: int, dtype: torch.dtype) -> list[Tensor]:
    lengths = (target, source, source)
    return [torch.randn(*shape, length, width, dtype=dtype, requires_grad=True) for length in lengths]


def visible(batch: int, source: int) -> Tensor:
    """A random mask (B, 1, 1, S) in which every row sees the first position at least."""
    mask = torch.rand(batch, 1, 1, source) < 0.6
    mask[..., 0] = True
    return mask


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(1, 3), st.integers(1, 2)),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(torch.float64, 1e-9), (torch.float32, 1e-5)]),
    st.integers(0, 1000),
)
def test_fused_equals_reference(
    shape: tuple[int, int],
    target: int,
    source: int,
    width: int,
    masked: bool,
    causal: bool,
    dtype: tuple[torch.dtype, float],
    seed: int,
) -> None:
    torch.manual_seed(seed)
    values = inputs(shape, target, source, width, dtype[0])
    mask = visible(shape[0], source) if masked else None
    fast = attend(*values, mask, causal)
    slow, weights = attend_with_weights(*values, mask, causal)
    assert fast.dtype == slow.dtype == weights.dtype == dtype[0]
    assert torch.allclose(fast, slow, rtol=0, atol=dtype[1])
    if not causal:
        assert torch.allclose(weights.sum(-1), torch.ones((), dtype=dtype[0]), rtol=0, atol=1e-6)
    if mask is not None:
        assert (weights[(~mask).expand_as(weights)] == 0).all()
    if causal:
        assert (weights.triu(1 + source - target) == 0).all()
    grad_output = torch.randn_like(fast)
    for found, right in zip(
        torch.autograd.grad(fast, values, grad_output), torch.autograd.grad(slow, values, grad_output), strict=True
    ):
        assert torch.allclose(found, right, rtol=0, atol=10 * dtype[1])


@pytest.mark.parametrize("path", [attend, lambda *given: attend_with_weights(*given)[0]], ids=["fused", "reference"])
def test_no_gradient_reaches_the_future(path: object) -> None:
    values = inputs((1, 2), 5, 5, 3, torch.float64)
    for row in range(5):
        result = path(*values, None, True)[:, :, row].sum()  # type: ignore[operator]
        _, key, value = torch.autograd.grad(result, values)
        assert (key[:, :, row + 1 :] == 0).all()
        assert (value[:, :, row + 1 :] == 0).all()
        assert (value[:, :, : row + 1] != 0).all()


def test_causal_is_the_causal_mask() -> None:
    values = inputs((2,), 4, 4, 3, torch.float64)
    assert torch.allclose(attend(*values, causal=True), attend(*values, causal_mask(4)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("masked", [False, True])
def test_queries_stand_at_the_end_of_the_keys(masked: bool) -> None:
    """With T = 1 and S = 5 the query sees all five; T queries of a longer sequence see what they see in the whole."""
    torch.manual_seed(6)
    query, key, value = (torch.randn(2, 2, 5, 3, dtype=torch.float64) for _ in range(3))
    mask = visible(2, 5) if masked else None
    last = attend(query[..., -1:, :], key, value, mask, causal=True)
    assert torch.allclose(last, attend(query[..., -1:, :], key, value, mask), rtol=0, atol=1e-12)
    whole, whole_weights = attend_with_weights(query, key, value, mask, causal=True)
    for targets in range(1, 6):
        late = query[..., 5 - targets :, :]
        context, weights = attend_with_weights(late, key, value, mask, causal=True)
        assert torch.allclose(attend(late, key, value, mask, causal=True), whole[..., 5 - targets :, :], atol=1e-12)
        assert torch.allclose(context, whole[..., 5 - targets :, :], rtol=0, atol=1e-12)
        assert torch.allclose(weights, whole_weights[..., 5 - targets :, :], rtol=0, atol=1e-12)


def test_a_bias_function_is_added_to_the_scores() -> None:
    """Also by fused attention, in values and gradients, and together with a mask and the future hidden."""
    torch.manual_seed(7)
    values = inputs((2, 2), 4, 4, 3, torch.float64)
    table = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    mask = visible(2, 4)

    def bias(query: Tensor, key: Tensor) -> Tensor:
        return table * query.sum(-1, keepdim=True)

    fast = attend(*values, mask, True, bias=bias)
    slow, weights = attend_with_weights(*values, mask, True, bias=bias)
    query, key, value = values
    scores = query @ key.transpose(-1, -2) / 3**0.5 + bias(query, key)
    seen = mask & causal_mask(4)
    right = torch.where(seen, scores, -torch.inf).softmax(-1)
    assert torch.allclose(weights, right, rtol=0, atol=1e-12)
    for found in (fast, slow):
        assert torch.allclose(found, right @ value, rtol=0, atol=1e-9)
    grad_output = torch.randn_like(fast)
    expected = torch.autograd.grad(right @ value, [*values, table], grad_output)
    for found, exact in zip(torch.autograd.grad(fast, [*values, table], grad_output), expected, strict=True):
        assert torch.allclose(found, exact, rtol=0, atol=1e-9)


def test_hard_attention_is_the_arg_max_and_soft_attention_tends_to_it() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0], [4.0, 4.0, 0.0], [5.0, 9.0, 1.0]])
    mask = torch.tensor([[True, True, True], [True, True, True], [True, False, True]])
    hard = masked_softmax(scores, mask, hard=True)
    assert hard.tolist() == [[0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]
    assert torch.allclose(masked_softmax(scores / 0.01, mask), hard, atol=1e-6)
    assert masked_softmax(scores, torch.zeros(3, 3, dtype=torch.bool)).tolist() == [[0.0] * 3] * 3


def test_worked_example_of_the_scaled_dot_product() -> None:
    """q . k = 112 and 96, d_k = 64: divided by 8 they are 14 and 12, so the weights are e^2 : 1."""
    query, keys = torch.zeros(1, 64), torch.zeros(2, 64)
    query[0, :2] = torch.tensor([8.0, 4.0])
    keys[0, :2], keys[1, :2] = torch.tensor([10.0, 8.0]), torch.tensor([8.0, 8.0])
    assert (query @ keys.t()).tolist() == [[112.0, 96.0]]
    values = torch.tensor([[1.0], [0.0]]).expand(2, 64)
    _, weights = attend_with_weights(query, keys, values)
    assert weights[0, 0].item() == pytest.approx(1 / (1 + torch.tensor(-2.0).exp().item()), abs=1e-6)
    assert round(weights[0, 0].item(), 2) == 0.88
    assert attend(query[None], keys[None], values[None])[0, 0, 0].item() == pytest.approx(0.8808, abs=1e-4)


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_on_a_cpu_is_near_float32(autocast: bool) -> None:
    torch.manual_seed(4)
    values = inputs((2, 2), 4, 6, 8, torch.bfloat16)
    mask = visible(2, 6)
    exact = [value.detach().float().requires_grad_() for value in values]
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        fast = attend(*values, mask)
    right = attend_with_weights(*exact, mask)[0]
    assert fast.dtype == torch.bfloat16
    assert torch.allclose(fast.float(), right, rtol=2**-7, atol=2**-8)
    found = torch.autograd.grad(fast.float().square().sum(), values)
    for one, other in zip(found, torch.autograd.grad(right.square().sum(), exact), strict=True):
        assert one.dtype == torch.bfloat16
        assert torch.allclose(one.float(), other, rtol=0.05, atol=0.05)


def test_dropout_drops_weights_and_keeps_the_mean() -> None:
    torch.manual_seed(5)
    query, key = torch.zeros(1, 400, 4), torch.zeros(1, 50, 4)
    context = attend(query, key, torch.ones(1, 50, 4), dropout=0.5)
    assert context.std() > 0.05
    assert context.mean().item() == pytest.approx(1.0, abs=0.02)
