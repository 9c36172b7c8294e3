"""The LSTM with a window: the loop by hand is its reference, in values and in every gradient."""

import pytest
import torch

from harken.kernels.recurrent.windowed_lstm import WINDOWED_LSTM
from harken.nn.recurrent.windowed_lstm import WindowedLSTM


def made(dtype: torch.dtype = torch.float64) -> tuple[WindowedLSTM, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layer = WindowedLSTM(3, 5, characters=4, gaussians=2, pace=3).to(dtype)
    torch.nn.init.normal_(layer.window.project.weight, std=0.5)
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]).to(dtype)
    return layer, torch.randn(2, 7, 3, dtype=dtype), torch.randn(2, 4, 4, dtype=dtype), mask


def test_forward_equals_the_reference() -> None:
    layer, values, characters, mask = made()
    values.requires_grad_()
    characters.requires_grad_()
    weights = torch.randn(2, 7, 5).double(), torch.randn(2, 7, 4).double()
    found = []
    for way in (layer.forward, layer.reference):
        result = way(values, characters, mask)
        loss = (result.hidden * weights[0]).sum() + (result.view * weights[1]).sum()
        gradients = torch.autograd.grad(loss, [values, characters, *layer.parameters()])
        found.append([result.hidden, result.view, result.weights, *gradients])
    for fast, reference in zip(*found, strict=True):
        torch.testing.assert_close(fast, reference, atol=1e-12, rtol=1e-10)


def test_padding_changes_nothing() -> None:
    layer, values, characters, mask = made()
    together = layer(values, characters, mask)
    alone = layer(values[1:, :4], characters[1:, :2])
    torch.testing.assert_close(alone.hidden, together.hidden[1:, :4])
    torch.testing.assert_close(alone.view, together.view[1:, :4])
    assert together.weights[1, :, 2:].abs().max() == 0


@pytest.mark.parametrize("way", ["forward", "reference"])
def test_the_future_is_not_seen(way: str) -> None:
    layer, values, characters, mask = made()
    changed = values.clone()
    changed[:, 4:] = 9.0
    one, other = (getattr(layer, way)(points, characters, mask).hidden for points in (values, changed))
    assert torch.equal(one[:, :4], other[:, :4]) and not torch.equal(one[:, 4:], other[:, 4:])


def test_a_trace_has_what_the_quick_way_makes() -> None:
    torch.manual_seed(3)
    layer = WindowedLSTM(3, 8, characters=4, gaussians=2)
    values, texts = torch.randn(2, 5, 3), torch.randn(2, 6, 4)
    mask = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2])
    fast = layer(values, texts, mask)
    traced, trace = layer(values, texts, mask, trace=True)
    for left, right in zip(fast, traced, strict=True):
        torch.testing.assert_close(left, right, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(trace[0].hidden, fast.hidden, atol=1e-5, rtol=1e-5)
    assert trace.names == ("input", "forget", "candidate", "output", "hidden", "cell")
    written = trace[0].output * torch.tanh(trace[0].cell)
    torch.testing.assert_close(written, trace[0].hidden)


def test_kernels_off_and_a_hook_take_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, *inputs = made()
    with_kernel = layer(*inputs)
    assert with_kernel.weights.grad_fn is None
    layer.cell.register_forward_hook(lambda *_: None)
    assert layer(*inputs).weights.grad_fn is not None
    layer, *inputs = made()
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    reference = layer(*inputs)
    assert reference.weights.grad_fn is not None
    torch.testing.assert_close(reference.hidden, with_kernel.hidden)


def test_without_gradients_the_reference_runs() -> None:
    layer, *inputs = made()
    assert WINDOWED_LSTM.supports()
    with torch.no_grad():
        assert WINDOWED_LSTM.why_not() == "the reference is faster without gradients"
        outputs = zip(layer(*inputs), layer.reference(*inputs), strict=True)
        assert all(torch.equal(output, expected) for output, expected in outputs)


def test_second_derivatives_are_refused_and_the_reference_has_them() -> None:
    layer, *inputs = made()
    with pytest.raises(RuntimeError, match="no second derivatives"):
        torch.autograd.grad(layer(*inputs).hidden.sum(), layer.cell.weight_hh, create_graph=True)
    (first,) = torch.autograd.grad(layer.reference(*inputs).hidden.sum(), layer.cell.weight_hh, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), layer.cell.weight_hh)[0].abs().sum() > 0
