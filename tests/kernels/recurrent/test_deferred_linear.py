"""One weight gradient for a whole loop equals autograd's sum over its steps."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harken.kernels.recurrent.deferred import DeferredLinear

Product = Callable[[Tensor], Tensor]


def loop(product: Product, first: Tensor, inputs: Tensor) -> Tensor:
    """h = tanh(W [x; h]) over inputs (T, B, I); the sum of all states, each weighted by its step."""
    hidden, total = first, first.new_zeros(())
    for step, values in enumerate(inputs):
        hidden = torch.tanh(product(torch.cat((values, hidden), -1)))
        total = total + (step + 1) * hidden.sum()
    return total


def problem(time: int, batch: int, inputs: int, width: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    shapes = [(width, inputs + width), (batch, width), (time, batch, inputs)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1000))
def test_equals_linear_in_a_recurrent_loop(time: int, batch: int, inputs: int, width: int, seed: int) -> None:
    torch.manual_seed(seed)
    leaves = problem(time, batch, inputs, width)
    weight, first, values = leaves
    fast = loop(DeferredLinear(weight), first, values)
    slow = loop(lambda given: F.linear(given, weight), first, values)
    assert torch.allclose(fast, slow, rtol=0, atol=1e-9)
    for found, right in zip(torch.autograd.grad(fast, leaves), torch.autograd.grad(slow, leaves), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-9)


def test_the_weight_may_be_made_of_others() -> None:
    """As in the decoder: columns of one parameter beside another parameter."""
    torch.manual_seed(1)
    left, right = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    inputs = torch.randn(3, 2, 2, dtype=torch.float64)

    def joined() -> Tensor:
        return torch.cat((left[:, -2:], right[:, :3]), 1)

    first = torch.zeros(2, 3, dtype=torch.float64)
    fast = torch.autograd.grad(loop(DeferredLinear(joined()), first, inputs), [left, right])
    slow = torch.autograd.grad(loop(lambda given: F.linear(given, joined()), first, inputs), [left, right])
    for found, wanted in zip(fast, slow, strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-9)
    assert (fast[0][:, :2] == 0).all()


def test_two_loops_over_one_weight_in_one_backward() -> None:
    torch.manual_seed(2)
    leaves = problem(3, 2, 2, 3)
    weight, first, values = leaves
    fast = loop(DeferredLinear(weight), first, values) + loop(DeferredLinear(weight), first, values).square()
    slow = sum(loop(lambda given: F.linear(given, weight), first, values) ** power for power in (1, 2))
    for found, right in zip(torch.autograd.grad(fast, leaves), torch.autograd.grad(slow, leaves), strict=True):
        assert torch.allclose(found, right, rtol=1e-9, atol=1e-9)


def test_backward_twice_through_a_kept_graph() -> None:
    torch.manual_seed(3)
    leaves = problem(3, 2, 2, 3)
    total = loop(DeferredLinear(leaves[0]), *leaves[1:])
    first = torch.autograd.grad(total, leaves, retain_graph=True)
    for found, right in zip(torch.autograd.grad(total, leaves), first, strict=True):
        assert torch.equal(found, right)


def test_outputs_that_nobody_uses() -> None:
    weight = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(3, 4, 2, dtype=torch.float64)
    linear = DeferredLinear(weight)
    outputs = [linear(values) for values in inputs]
    outputs[1].sum().backward()
    assert torch.allclose(weight.grad, inputs[1].sum(0).expand(3, 2), rtol=0, atol=1e-12)


@pytest.mark.parametrize("frozen", [0, 1])
def test_frozen_weight_or_inputs(frozen: int) -> None:
    weight = torch.randn(3, 2, dtype=torch.float64, requires_grad=frozen != 0)
    values = torch.randn(4, 2, dtype=torch.float64, requires_grad=frozen != 1)
    DeferredLinear(weight)(values).sum().backward()
    if frozen == 0:
        assert weight.grad is None
        assert torch.allclose(values.grad, weight.sum(0).expand(4, 2))
    else:
        assert values.grad is None
        assert torch.allclose(weight.grad, values.sum(0).expand(3, 2))


def test_bfloat16_autocast_is_near() -> None:
    torch.manual_seed(4)
    leaves = problem(4, 8, 4, 16, torch.float32)
    leaves[0].data.mul_(0.3)
    with torch.autocast("cpu", torch.bfloat16):
        linear = DeferredLinear(leaves[0])
        assert linear(torch.cat((leaves[2][0], leaves[1]), -1)).dtype == torch.bfloat16
        fast = loop(linear, *leaves[1:])
        rounded = loop(lambda given: F.linear(given, leaves[0]), *leaves[1:])
    exact = loop(lambda given: F.linear(given, leaves[0]), *leaves[1:])
    found = torch.autograd.grad(fast, leaves)
    for slow, tolerance in ((rounded, 0.01), (exact, 0.03)):
        assert fast.item() == pytest.approx(slow.item(), rel=0.02, abs=0.5)
        for one, other in zip(found, torch.autograd.grad(slow, leaves), strict=True):
            assert one.dtype == torch.float32
            assert (one - other).norm() < tolerance * other.norm()


def test_gradients_of_inputs_alone_leave_the_weight_gradient_right() -> None:
    weight = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    values = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    loss = DeferredLinear(weight)(values).sum()
    torch.autograd.grad(loss, values, retain_graph=True)
    loss.backward()
    assert weight.grad is not None
    assert weight.grad.item() == 1.0


def test_second_derivatives_are_those_of_linear() -> None:
    torch.manual_seed(5)
    leaves = problem(3, 2, 2, 3)

    def second(product: Product) -> tuple[Tensor, ...]:
        first = torch.autograd.grad(loop(product, *leaves[1:]), leaves, create_graph=True)
        return torch.autograd.grad(sum(part.square().sum() for part in first), leaves)

    deferred = second(DeferredLinear(leaves[0]))
    for one, other in zip(deferred, second(lambda given: F.linear(given, leaves[0])), strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-9)


def test_it_is_linear_where_kernels_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(3, 2, requires_grad=True)
    assert DeferredLinear(weight)(torch.ones(1, 2)).grad_fn.name() == "_ProductBackward"
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert DeferredLinear(weight)(torch.ones(1, 2)).grad_fn.name() != "_ProductBackward"
