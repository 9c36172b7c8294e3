"""Convolution over time against torch's and a loop; what it must not see; step by step as well as at once."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from harken.nn import Convolution

INPUTS, OUTPUTS = 3, 4


def build(kernel: int, dilation: int, causal: bool, dtype: torch.dtype = torch.float64) -> Convolution:
    torch.manual_seed(1)
    return Convolution(INPUTS, OUTPUTS, kernel if causal else kernel | 1, dilation, causal).to(dtype)


def by_hand(layer: Convolution, values: Tensor, length: int) -> Tensor:
    """One sentence (T, I), of which `length` words are real: the sum of the text."""
    centre = layer.kernel - 1 if layer.causal else (layer.kernel - 1) // 2
    taps = layer.product.weight.unflatten(1, (layer.kernel, INPUTS)).unbind(1)
    found = []
    for place in range(length):
        total = layer.product.bias
        for number, tap in enumerate(taps):
            seen = place + (number - centre) * layer.dilation
            if 0 <= seen < length:
                total = total + tap @ values[seen]
        found.append(total)
    return torch.stack(found)


shapes = (st.integers(1, 4), st.integers(1, 4), st.booleans())


@given(st.lists(st.integers(1, 6), min_size=1, max_size=3), *shapes, st.sampled_from([torch.float64, torch.float32]))
def test_values_are_the_sum_of_the_text(
    lengths: list[int], kernel: int, dilation: int, causal: bool, dtype: torch.dtype
) -> None:
    """Also where what stands in the padding is no number."""
    layer = build(kernel, dilation, causal, dtype)
    values = torch.randn(len(lengths), 6, INPUTS, dtype=dtype)
    mask = torch.arange(6) < torch.tensor(lengths)[:, None]
    found = layer(values.masked_fill(~mask[..., None], torch.nan), mask)
    for row, length in enumerate(lengths):
        right = by_hand(layer, values[row], length)
        assert torch.allclose(found[row, :length], right, rtol=0, atol=1e-10 if dtype == torch.float64 else 1e-5)


@given(st.integers(1, 7), *shapes)
def test_values_and_gradients_are_torchs(length: int, kernel: int, dilation: int, causal: bool) -> None:
    layer = build(kernel, dilation, causal)
    values = torch.randn(2, length, INPUTS, dtype=torch.float64, requires_grad=True)
    weight = layer.product.weight.unflatten(1, (layer.kernel, INPUTS)).transpose(1, 2)  # (O, I, K)
    sides = (layer.reach, 0) if causal else (layer.reach // 2, layer.reach // 2)
    right = F.conv1d(F.pad(values.transpose(1, 2), sides), weight, layer.product.bias, dilation=dilation)
    found, right = layer(values), right.transpose(1, 2)
    assert torch.allclose(found, right, rtol=0, atol=1e-10)
    into, pull = [values, *layer.parameters()], torch.randn_like(found)
    for one, other in zip(torch.autograd.grad(found, into, pull), torch.autograd.grad(right, into, pull), strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-10)


@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))
def test_steps_of_any_size_equal_the_whole(length: int, kernel: int, dilation: int, size: int) -> None:
    layer, past = build(kernel, dilation, True), None
    values = torch.randn(2, length, INPUTS, dtype=torch.float64)
    found = []
    for part in values.split(size, 1):
        now, past = layer.step(part, past)
        assert past.shape == (2, (kernel - 1) * dilation, INPUTS)
        found.append(now)
    assert torch.allclose(torch.cat(found, 1), layer(values), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (2, 2), (4, 1)])
def test_no_gradient_reaches_the_future(kernel: int, dilation: int) -> None:
    layer = build(kernel, dilation, True)
    values = torch.randn(1, 6, INPUTS, dtype=torch.float64, requires_grad=True)
    for place in range(6):
        (gradient,) = torch.autograd.grad(layer(values)[:, place].sum(), values)
        seen = {place - number * dilation for number in range(kernel)}
        assert [bool((row != 0).any()) for row in gradient[0]] == [number in seen for number in range(6)]


def test_padding_gets_no_gradient() -> None:
    layer = build(3, 1, False)
    values = torch.randn(2, 4, INPUTS, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, False, False], [True] * 4])
    (gradient,) = torch.autograd.grad(layer(values, mask)[mask].sum(), values)
    assert (gradient[~mask] == 0).all()
    assert (gradient[mask] != 0).all()


@pytest.mark.parametrize("causal", [False, True])
def test_gradcheck(causal: bool) -> None:
    layer = build(3, 2, causal)
    values = torch.randn(1, 4, INPUTS, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *_: layer(values), (values, *layer.parameters()))


@pytest.mark.parametrize("gated", [False, True])
def test_first_weights_keep_the_variance(gated: bool) -> None:
    torch.manual_seed(1)
    layer = Convolution(64, 128, 5)
    layer.initialize(gated=gated)
    found = layer(torch.randn(64, 20, 64))[:, 2:-2]
    found = F.glu(found) if gated else found
    assert 0.9 < found.var().item() < (1.5 if gated else 1.1)  # gates that differ from 1/2 let more through


def test_options_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="odd width, not 4"):
        Convolution(2, 2, kernel=4)
    with pytest.raises(ValueError, match="at least 1, not 0 and 1"):
        Convolution(2, 2, kernel=0)
