"""How recurrent layers behave in autograd and in the transforms of torch.func, by each backend."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck
from torch.func import functional_call, grad, vmap

from harken.kernels.recurrent.cpu import operator
from harken.nn import GRU, LSTM, RNN, Dropout
from harken.nn.recurrent import stack
from harken.nn.recurrent.ssru import SSRU

sys.path.insert(0, str(Path(__file__).parent))
from recurrent_cases import VARIANTS, build, cases

T, B, INPUTS, H = 3, 2, 3, 4


@pytest.fixture(params=["loop", "cpu"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Every call goes to this backend."""
    if request.param == "cpu":
        pytest.importorskip("numba", reason="the CPU kernels are compiled by numba")
    monkeypatch.setattr(stack, "choose", choose_by_name(request.param))
    yield request.param


def choose_by_name(name: str) -> Any:
    """What takes the place of `harken.kernels.backend.choose`."""
    return lambda backends, call: next(backend for backend in backends if backend.name == name)


def layer_of(variant: str, **options: Any) -> Any:
    torch.manual_seed(1)
    return build(variant, INPUTS, H, **{"batch_first": False, **options})


def inputs() -> Tensor:
    return torch.randn(T, B, INPUTS, dtype=torch.float64)


CHANGED = ["weight_hh", "weight_ih"]


@pytest.mark.parametrize("variant", ["tanh", "lstm", "lstm full", "gru after", "gru before"])
@pytest.mark.parametrize("name", CHANGED)
def test_a_weight_changed_in_place_before_backward_raises(variant: str, name: str, backend: str) -> None:
    layer = layer_of(variant)
    x = inputs().requires_grad_()
    output, _ = layer(x)
    with torch.no_grad():
        getattr(layer.cells[0], name).add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        output.sum().backward()


@pytest.mark.parametrize("name", ["weight_ch", "weight_hr"])
def test_a_peephole_or_projection_changed_in_place_raises(name: str, backend: str) -> None:
    layer = layer_of("lstm full")
    output, _ = layer(inputs())
    with torch.no_grad():
        getattr(layer.cells[0], name).mul_(2.0)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        output.sum().backward()


def test_torchs_loop_raises_too() -> None:
    layer = layer_of("lstm")
    assert layer.backend(inputs()) == "torch"
    output, _ = layer(inputs().requires_grad_())
    with torch.no_grad():
        layer.cells[0].weight_hh.add_(1.0)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        output.sum().backward()


@pytest.mark.parametrize("variant", ["lstm full", "gru before", "tanh"])
def test_a_call_leaves_no_reference_cycle(variant: str, backend: str) -> None:
    """What a pass kept is freed with its output, without the garbage collector."""
    layer = layer_of(variant)
    gc.disable()
    gc.freeze()  # leaves what the process has already out of the count
    try:
        before = kept_objects()
        for backward in (True, False, True):
            output, state = layer(inputs())
            assert kept_objects() > before or backend == "loop"  # what it keeps is autograd's own
            if backward:
                output.sum().backward()
            del output, state
            assert kept_objects() == before
    finally:
        gc.unfreeze()
        gc.enable()


def kept_objects() -> int:
    """How many records, and states of all steps, are kept for backward passes."""
    return sum(type(one) in (operator._Layer, Tensor) for one in gc.get_objects())


def parameters_of(layer: nn.Module) -> dict[str, Tensor]:
    return {name: weight.detach() for name, weight in layer.named_parameters()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_func_grad_equals_autograd(variant: str) -> None:
    layer, x = layer_of(variant, bidirectional=True), inputs()

    def loss(weights: dict[str, Tensor]) -> Tensor:
        return functional_call(layer, weights, (x,))[0].square().sum()

    found = grad(loss)(parameters_of(layer))
    right = torch.autograd.grad(layer(x)[0].square().sum(), list(layer.parameters()))
    for one, other in zip(found.values(), right, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("variant", VARIANTS)
def test_vmap_over_inputs_and_per_sample_gradients(variant: str) -> None:
    layer, x = layer_of(variant, layer_norm=True), inputs()
    weights = parameters_of(layer)

    def loss(weights: dict[str, Tensor], row: Tensor) -> Tensor:
        return functional_call(layer, weights, (row,))[0].square().sum()  # (T, I): one sequence

    right = [layer(x[:, row])[0] for row in range(B)]
    assert torch.allclose(vmap(lambda row: layer(row)[0], in_dims=1)(x), torch.stack(right), atol=1e-9)
    found = vmap(grad(loss), in_dims=(None, 1))(weights, x)
    for row in range(B):
        wanted = torch.autograd.grad(right[row].square().sum(), list(layer.parameters()), retain_graph=True)
        for one, other in zip(found.values(), wanted, strict=True):
            assert torch.allclose(one[row], other, rtol=0, atol=1e-9)


def test_func_grad_through_training_dropout() -> None:
    layer = Dropout(0.5)
    found = grad(lambda x: layer(x).sum())(torch.ones(1000))
    assert set(found.tolist()) == {0.0, 2.0}
    masks = vmap(layer, randomness="different")(torch.ones(2, 1000))
    assert not torch.equal(masks[0], masks[1])


def second_derivatives(layer: Any, run: Any, x: Tensor) -> list[Tensor]:
    """Of a loss whose gradient is constant at the outputs, so that only the layer itself has second derivatives."""
    into = [x, *layer.parameters()]
    first = torch.autograd.grad(run(x)[0].sum(), into, create_graph=True)
    return list(torch.autograd.grad(sum(part.square().sum() for part in first), into))


@pytest.mark.parametrize("name", ["loop", "masked", "cpu"])
@settings(deadline=None, max_examples=12, derandomize=True)
@given(cases())
def test_second_derivatives_are_right_or_refused(name: str, case: dict[str, Any]) -> None:
    """Of every variant with every option, numerically, by each backend of harken that runs on a CPU."""
    if name == "cpu":
        pytest.importorskip("numba", reason="the CPU kernels are compiled by numba")
    torch.manual_seed(case["seed"])
    keys = ("bias", "bidirectional", "layer_norm", "connections", "zoneout", "recurrent_dropout")
    layers = min(case["layers"], 2)
    layer = build(case["variant"], case["inputs"], 3, layers, **{key: case[key] for key in keys})
    x = torch.randn(case["batch"], case["time"], case["inputs"], dtype=torch.float64)
    lengths = None if case["lengths"] is None else torch.tensor(case["lengths"])
    names = [key for key, _ in layer.named_parameters()]
    values = tuple(part.detach().clone().requires_grad_() for part in (x, *layer.parameters()))

    def run(x: Tensor, *weights: Tensor) -> Tensor:
        torch.manual_seed(0)  # of the noise
        named = dict(zip(names, weights, strict=True))
        return functional_call(layer, named, (x,), {"lengths": lengths})[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stack, "choose", choose_by_name(name))
        assert gradcheck(run, values, fast_mode=True)  # also walks a graph twice
        if name == "cpu":
            with pytest.raises(RuntimeError, match="no second derivatives"):
                torch.autograd.grad(run(*values).sum(), values, create_graph=True)
        else:
            assert gradgradcheck(run, values, fast_mode=True)


def test_second_derivatives_of_a_linear_recurrence() -> None:
    torch.manual_seed(1)
    layer, x = SSRU(3).double(), torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    weights = dict(layer.named_parameters())

    def run(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(weights, values, strict=True)), (x,))

    assert gradcheck(run, (x, *weights.values()))
    assert gradgradcheck(run, (x, *weights.values()))


@pytest.mark.parametrize(("kind", "options"), [(LSTM, {"proj_size": 2}), (LSTM, {}), (GRU, {}), (RNN, {})])
def test_double_backward_equals_torchs(kind: Any, options: dict[str, int]) -> None:
    layer, x = kind(2, 3, **options).double(), torch.randn(4, 2, 2, dtype=torch.float64, requires_grad=True)
    peer = layer.to_torch()
    for one, other in zip(second_derivatives(layer, layer, x), second_derivatives(peer, peer, x), strict=True):
        torch.testing.assert_close(one, other)


def test_a_parametrized_peephole_is_read_as_it_is() -> None:
    class Half(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight / 2

    layer, halved, x = LSTM(3, 5, peephole="diagonal"), LSTM(3, 5, peephole="diagonal"), torch.randn(4, 2, 3)
    halved.load_state_dict(layer.state_dict())
    with torch.no_grad():
        halved.cells_of_all()[0].weight_ch.mul_(0.5)
    nn.utils.parametrize.register_parametrization(layer.cells_of_all()[0], "weight_ch", Half())
    torch.testing.assert_close(layer(x)[0], halved(x)[0])
