"""The fused loss equals its definition in values and gradients, in one block of rows or in many."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from harken.kernels.cross_entropy import cpu as cross_entropy
from harken.nn import smoothed_cross_entropy
from harken.nn.loss import linear_cross_entropy


def definition(hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    return smoothed_cross_entropy(F.linear(hidden, weight, bias), targets, smoothing, padding=-1)


def problem(rows: int, width: int, vocabulary: int, bias: bool, dtype: torch.dtype) -> tuple[list[Tensor], Tensor]:
    """Hidden states, weight and perhaps bias that want gradients, and targets."""
    shapes = [(rows, width), (vocabulary, width), *([(vocabulary,)] if bias else [])]
    leaves = [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]
    return leaves, torch.randint(vocabulary, (rows,))


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(1, 7),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
    st.integers(1, 40),
    st.sampled_from([(torch.float64, 1e-9), (torch.float32, 1e-4)]),
    st.integers(0, 1000),
)
def test_equals_definition(
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    width: int,
    vocabulary: int,
    with_bias: bool,
    smoothing: float,
    block: int,
    dtype: tuple[torch.dtype, float],
    seed: int,
) -> None:
    torch.manual_seed(seed)
    monkeypatch.setattr(cross_entropy, "BLOCK_VALUES", block)
    leaves, targets = problem(rows, width, vocabulary, with_bias, dtype[0])
    hidden, weight, bias = (*leaves, None)[:3]
    fast = linear_cross_entropy(hidden, weight, bias, targets, smoothing)
    slow = definition(hidden, weight, bias, targets, smoothing)
    assert fast.dtype == dtype[0]
    assert torch.allclose(fast, slow, rtol=0, atol=dtype[1])
    scale = torch.tensor(0.3, dtype=dtype[0])  # the backward pass must scale what the forward pass made
    found, right = torch.autograd.grad(fast * scale, leaves), torch.autograd.grad(slow * scale, leaves)
    for one, other in zip(found, right, strict=True):
        assert one.dtype == other.dtype
        assert torch.allclose(one, other, rtol=0, atol=dtype[1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_extreme_logits(dtype: torch.dtype, smoothing: float) -> None:
    """Where p(y) underflows to 0 its logarithm is still right, and nothing overflows."""
    hidden = torch.tensor([[1.0], [-1.0], [1.0]], dtype=dtype, requires_grad=True)
    weight = torch.tensor([[3000.0], [-3000.0], [0.0]], dtype=dtype, requires_grad=True)
    targets = torch.tensor([1, 0, 0])
    fast = linear_cross_entropy(hidden, weight, None, targets, smoothing)
    each = [6000.0 - (smoothing * 3000), 6000.0 - (smoothing * 3000), smoothing * 3000]  # by hand
    assert fast.item() == pytest.approx(sum(each), rel=1e-6)
    slow = definition(hidden, weight, None, targets, smoothing)
    found, right = torch.autograd.grad(fast, [hidden, weight]), torch.autograd.grad(slow, [hidden, weight])
    for one, other in zip(found, right, strict=True):
        assert torch.allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("wanted", [[0], [1], [2], [0, 2], []])
def test_only_what_wants_a_gradient_gets_one(wanted: list[int]) -> None:
    torch.manual_seed(2)
    leaves, targets = problem(6, 3, 5, True, torch.float64)
    right = torch.autograd.grad(definition(*leaves, targets, 0.1), leaves)
    for index, leaf in enumerate(leaves):
        leaf.requires_grad_(index in wanted)
    loss = linear_cross_entropy(*leaves, targets, 0.1)
    assert loss.requires_grad == bool(wanted)
    if wanted:
        loss.backward()
    for index, leaf in enumerate(leaves):
        if index in wanted:
            assert torch.allclose(leaf.grad, right[index], rtol=0, atol=1e-9)
        else:
            assert leaf.grad is None


class _Products(TorchDispatchMode):
    """Counts matrix products."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_)
        return func(*args, **(kwargs or {}))


def test_without_gradients_there_is_one_product_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "BLOCK_VALUES", 2 * 5)
    leaves, targets = problem(6, 3, 5, True, torch.float64)
    with torch.no_grad(), _Products() as products:
        loss = linear_cross_entropy(*leaves, targets, 0.1)
    assert products.count == 3
    assert torch.allclose(loss, definition(*leaves, targets, 0.1), rtol=0, atol=1e-9)
    with _Products() as products:
        linear_cross_entropy(*leaves, targets, 0.1)
    assert products.count == 9


@pytest.mark.parametrize("block", [2**21, 24])
def test_bfloat16_autocast_is_near(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    monkeypatch.setattr(cross_entropy, "BLOCK_VALUES", block)
    leaves, targets = problem(40, 16, 12, True, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        fast = linear_cross_entropy(*leaves, targets, 0.1)
    assert fast.dtype == torch.float32
    slow = definition(*leaves, targets, 0.1)
    assert fast.item() == pytest.approx(slow.item(), rel=0.01)
    found, right = torch.autograd.grad(fast, leaves), torch.autograd.grad(slow, leaves)
    for one, other in zip(found, right, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.02 * other.norm()


def test_gradients_by_finite_differences() -> None:
    leaves, targets = problem(4, 3, 5, True, torch.float64)
    assert torch.autograd.gradcheck(lambda *given: linear_cross_entropy(*given, targets, 0.1), leaves)


def test_second_derivatives_are_refused_and_the_reference_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, targets = problem(4, 3, 5, True, torch.float64)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(linear_cross_entropy(*leaves, targets, 0.1), leaves, create_graph=True)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert torch.autograd.gradgradcheck(lambda *given: linear_cross_entropy(*given, targets, 0.1), leaves)


def test_kernels_off_is_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, targets = problem(6, 3, 5, True, torch.float64)
    fused = linear_cross_entropy(*leaves, targets, 0.1, 0.01, padding=2)
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    monkeypatch.delattr("harken.kernels.cross_entropy.cpu.linear_cross_entropy")
    torch.testing.assert_close(linear_cross_entropy(*leaves, targets, 0.1, 0.01, padding=2), fused)
