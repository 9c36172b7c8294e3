"""The Triton kernels that train a Transformer on packed sentences against their references, without a GPU.

Triton's interpreter has to be chosen before Triton is imported: `test_packed_interpreter.py` runs this file in a
process of its own.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from harken.kernels import linear, residual_norm
from harken.kernels.cross_entropy import cuda
from harken.kernels.packed_attention import operator
from harken.nn.attention.packed import PackedMask, packed_attend_reference
from harken.nn.loss import smoothed_cross_entropy

SOURCES, TARGETS = torch.tensor([9, 3, 20, 1, 70, 12]), torch.tensor([5, 17, 1, 80, 9, 3])
SIZES = 120, 128  # both leave padding at the end


def cross_mask() -> PackedMask:
    """From every target token to the tokens of its source."""
    sources, targets = PackedMask.spans(SOURCES, SIZES[0]), PackedMask.spans(TARGETS, SIZES[1])

    def interval(lengths: Tensor, repeats: Tensor, size: int) -> tuple[Tensor, Tensor]:
        first, end = torch.zeros(2, size, dtype=torch.int32)
        ends, total = lengths.cumsum(0), int(repeats.sum())
        first[:total] = (ends - lengths).repeat_interleave(repeats).int()
        end[:total] = ends.repeat_interleave(repeats).int()
        return first, end

    keys, queries = interval(SOURCES, TARGETS, SIZES[1]), interval(TARGETS, SOURCES, SIZES[0])
    assert len(sources.first_key) == len(queries[0])
    return PackedMask(targets.positions, *keys, *queries)


@pytest.mark.parametrize("width", [16, 24])
@pytest.mark.parametrize("kind", ["sentence", "causal", "cross"])
def test_packed_attention_equals_its_reference_in_values_and_gradients(kind: str, width: int) -> None:
    torch.manual_seed(0)
    spans = PackedMask.spans(TARGETS, SIZES[1])
    mask = {"sentence": spans, "causal": spans.causal(), "cross": cross_mask()}[kind]
    leaves = [torch.randn(SIZES[1], 1 if kind == "cross" else 3, 2, width, requires_grad=True)]
    if kind == "cross":
        leaves.append(torch.randn(SIZES[0], 2, 2, width, requires_grad=True))
    memory, grad_output = leaves[1] if kind == "cross" else None, torch.randn(SIZES[1], 2, width)
    fast = operator.packed_attention(leaves[0], memory, *mask[1:])
    right = packed_attend_reference(leaves[0], memory, mask)
    torch.testing.assert_close(fast, right, atol=2e-6, rtol=1e-5)
    assert not fast[int(TARGETS.sum()) :].any()  # padding sees nothing
    found, wanted = (torch.autograd.grad(values, leaves, grad_output) for values in (fast, right))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=5e-6, rtol=1e-4)


@pytest.mark.parametrize("with_bias", [False, True])
def test_the_cross_entropy_equals_its_reference_in_loss_and_gradients(
    with_bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "BLOCK", 16)  # several blocks a row
    monkeypatch.setattr(cuda, "MOST_LOGITS", 37 * 7)  # several products
    torch.manual_seed(0)
    hidden, weight = torch.randn(19, 8, requires_grad=True), torch.randn(37, 8, requires_grad=True)
    bias = torch.randn(37, requires_grad=True) if with_bias else None
    targets = torch.randint(1, 37, (19,))
    targets[3] = 0  # padding
    leaves = [hidden, weight] if bias is None else [hidden, weight, bias]
    fast = cuda.operator(hidden, weight, bias, targets, 0.1, 0.01, 0, True)[0]
    right = smoothed_cross_entropy(F.linear(hidden, weight, bias), targets, 0.1, 0, 0.01)
    torch.testing.assert_close(fast, right)
    found, wanted = (torch.autograd.grad(loss / 3, leaves) for loss in (fast, right))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=2e-6, rtol=1e-4)
    assert not found[0][3].any()


@pytest.mark.parametrize("relu", [False, True])
def test_the_linear_map_equals_its_definition_in_values_and_gradients(relu: bool) -> None:
    torch.manual_seed(0)
    leaves = [torch.randn(size, requires_grad=True) for size in ((70, 12), (130, 12), (130,))]
    fast = linear.operator(*leaves, relu)
    right = F.linear(*leaves)
    right = F.relu(right) if relu else right
    torch.testing.assert_close(fast, right)
    grad_output = torch.randn(70, 130)
    found, wanted = (torch.autograd.grad(values, leaves, grad_output) for values in (fast, right))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("width", [16, 24])
def test_residual_norm_equals_its_definition_in_values_and_gradients(width: int, dropout: float) -> None:
    torch.manual_seed(0)
    shapes = (75, width), (75, width), (width,), (width,), (width,)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    values, change, change_bias, weight, bias = leaves
    out, normed, keep, _, _ = residual_norm.operator(*leaves, torch.tensor([7]), 3, 1e-5, dropout)
    kept = keep.bool() / (1 - dropout) if dropout else torch.ones(75, width)
    summed = values + (change + change_bias) * kept
    right = F.layer_norm(summed, (width,), weight, bias)
    torch.testing.assert_close(out, summed)
    torch.testing.assert_close(normed, right, atol=2e-6, rtol=1e-5)
    grads = torch.randn(2, 75, width).unbind()
    found = torch.autograd.grad((out, normed), leaves, grads)
    wanted = torch.autograd.grad((summed, right), leaves, grads)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
    if dropout:
        assert keep.float().mean().item() == pytest.approx(1 - dropout, abs=0.05)
        other = residual_norm.operator(*leaves, torch.tensor([7]), 4, 1e-5, dropout)[2]
        assert not torch.equal(keep, other)  # another place draws other numbers
        assert not torch.equal(keep[:16], keep[16:32])  # and so do neighbouring rows
