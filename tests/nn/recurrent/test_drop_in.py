"""Changing `torch.nn.LSTM` to `harken.nn.LSTM` (RNN, GRU and the cells alike) changes no number and no name."""

import copy
import inspect
import io
import pickle
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import harken.nn as ours
from harken.nn import GRU, LSTM, RNN, Dropout, GRUCell, LSTMCell, RNNCell

LAYERS = ["RNN", "LSTM", "GRU"]
CASES = [
    pytest.param(
        kind,
        {"num_layers": layers, "bidirectional": both, "batch_first": first, "dropout": dropout, "bias": bias},
        id=f"{kind}-{layers}-{both}-{first}-{dropout}-{bias}",
    )
    for kind, layers, both, first, dropout, bias in product(
        LAYERS, [1, 3], [False, True], [False, True], [0.0, 0.4], [False, True]
    )
    if layers > 1 or not dropout
]


def pair(kind: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Both layers from the same seed."""
    torch.manual_seed(5)
    theirs = getattr(nn, kind)(*arguments, **options)
    torch.manual_seed(5)
    return getattr(ours, kind)(*arguments, **options), theirs


def flat(result: Any) -> list[Tensor]:
    if isinstance(result, PackedSequence):
        return [result.data, result.batch_sizes]
    return [result] if isinstance(result, Tensor) else [part for each in result for part in flat(each)]


def assert_same(found: Any, wanted: Any, atol: float = 0.0) -> None:
    assert [part.shape for part in flat(found)] == [part.shape for part in flat(wanted)]
    for one, other in zip(flat(found), flat(wanted), strict=True):
        assert torch.equal(one, other) if atol == 0 else torch.allclose(one, other, rtol=0, atol=atol)


@pytest.mark.parametrize(("kind", "options"), CASES)
def test_same_parameters_outputs_and_gradients_from_the_same_seed(kind: str, options: dict[str, Any]) -> None:
    layer, peer = pair(kind, 3, 4, **options)
    mine, their_own = dict(layer.named_parameters()), dict(peer.named_parameters())
    assert list(mine) == list(their_own) == list(layer.state_dict()) == list(peer.state_dict())
    assert all(torch.equal(mine[name], their_own[name]) for name in mine)
    values = torch.randn(5, 2, 3)
    torch.manual_seed(7)  # for dropout
    found = layer(input=values, hx=None)
    torch.manual_seed(7)
    wanted = peer(input=values, hx=None)
    assert_same(found, wanted)
    sum(part.square().sum() for part in flat(found)).backward()
    sum(part.square().sum() for part in flat(wanted)).backward()
    assert all(torch.equal(mine[name].grad, their_own[name].grad) for name in mine)  # type: ignore[arg-type]
    assert repr(layer) == repr(peer)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_packed_unbatched_and_given_states(kind: str, batch_first: bool) -> None:
    layer, peer = pair(kind, 3, 4, 2, bidirectional=True, batch_first=batch_first)
    values = torch.randn(3, 5, 3) if batch_first else torch.randn(5, 3, 3)
    for enforce, lengths in ((True, [5, 3, 1]), (False, [1, 5, 3])):
        packed = pack_padded_sequence(values, torch.tensor(lengths), batch_first, enforce_sorted=enforce)
        (output, state), (right, right_state) = layer(packed), peer(packed)
        assert torch.allclose(output.data, right.data, atol=1e-6)
        for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
            one, other = getattr(output, name), getattr(right, name)
            assert (one is None) == (other is None) and (one is None or torch.equal(one, other))
        assert_same(state, right_state, 1e-6)
    assert_same(layer(values, layer(values)[1]), peer(values, peer(values)[1]))
    single = torch.randn(5, 3)
    assert_same(layer(single, layer(single)[1]), peer(single, peer(single)[1]))


@pytest.mark.parametrize("kind", LAYERS)
def test_constructors_take_the_same_positional_arguments(kind: str) -> None:
    more = ["tanh"] if kind == "RNN" else []
    arguments = [3, 4, 2, *more, False, True, 0.25, True]
    layer, peer = pair(kind, *arguments)
    assert repr(layer) == repr(peer)
    for name in ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional"):
        assert getattr(layer, name) == getattr(peer, name)
    assert (layer.proj_size, layer.mode) == (peer.proj_size, peer.mode)
    assert list(inspect.signature(layer.forward).parameters)[:2] == ["input", "hx"]


@pytest.mark.parametrize(("kind", "options"), [(kind, {}) for kind in LAYERS] + [("LSTM", {"proj_size": 2})])
def test_state_dicts_load_strictly_both_ways(kind: str, options: dict[str, Any]) -> None:
    layer = getattr(ours, kind)(3, 4, 2, bidirectional=True, **options)
    peer = getattr(nn, kind)(3, 4, 2, bidirectional=True, **options)
    values = torch.randn(5, 2, 3)
    peer.load_state_dict(layer.state_dict(), strict=True)
    assert_same(layer(values), peer(values), 1e-6)
    nn.init.normal_(peer.weight_hh_l1_reverse)
    layer.load_state_dict(peer.state_dict(), strict=True)
    assert_same(layer(values), peer(values), 1e-6)
    assert [len(weights) for weights in layer.all_weights] == [len(weights) for weights in peer.all_weights]
    assert all(
        torch.equal(one, other)
        for mine, their_own in zip(layer.all_weights, peer.all_weights, strict=True)
        for one, other in zip(mine, their_own, strict=True)
    )
    layer.flatten_parameters()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_are_drawn_and_computed_alike(kind: str, dtype: torch.dtype) -> None:
    layer, peer = pair(kind, 3, 4, 2, dtype=dtype)
    assert all(torch.equal(one, other) for one, other in zip(layer.parameters(), peer.parameters(), strict=True))
    values = torch.randn(5, 2, 3, dtype=dtype)
    assert_same(layer(values), peer(values))
    half, peer_half = pair(kind, 3, 4)
    assert_same(half.to(dtype)(values), peer_half.to(dtype)(values))
    assert half.weight_ih_l0.dtype == dtype


@pytest.mark.parametrize("kind", LAYERS)
def test_reset_parameters_draws_as_torch_does(kind: str) -> None:
    layer, peer = pair(kind, 3, 4, 2)
    torch.manual_seed(9)
    layer.reset_parameters()
    torch.manual_seed(9)
    peer.reset_parameters()
    assert all(torch.equal(one, other) for one, other in zip(layer.parameters(), peer.parameters(), strict=True))


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("how", ["deepcopy", "pickle", "save", "copy"])
def test_copies_are_whole_and_independent(kind: str, how: str) -> None:
    layer = getattr(ours, kind)(3, 4, 2, bidirectional=True, layer_norm=True)
    values = torch.randn(5, 2, 3)
    before = layer(values)
    if how == "save":
        stream = io.BytesIO()
        torch.save(layer, stream)
        other = torch.load(io.BytesIO(stream.getvalue()), weights_only=False)
    else:
        made = {"deepcopy": copy.deepcopy, "pickle": lambda one: pickle.loads(pickle.dumps(one)), "copy": copy.copy}
        other = made[how](layer)
    assert_same(other(values), before)
    with torch.no_grad():
        other.weight_hh_l0.fill_(0.5)
    assert torch.equal(layer(values)[0], before[0]) == (how != "copy")
    assert torch.equal(other.cells[0].weight_hh, other.weight_hh_l0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("kind", LAYERS)
def test_jit_trace(kind: str) -> None:
    layer = getattr(ours, kind)(3, 4, 2, bidirectional=True).eval()
    traced = torch.jit.trace(layer, torch.randn(5, 2, 3))
    for shape in ((5, 2, 3), (9, 4, 3)):
        values = torch.randn(shape)
        assert_same(traced(values), layer(values), 1e-6)
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    assert_same(torch.jit.load(io.BytesIO(stream.getvalue()))(values), layer(values), 1e-6)


@pytest.mark.parametrize("kind", LAYERS)
def test_weights_can_be_replaced_parametrized_and_called_functionally(kind: str) -> None:
    layer, peer = pair(kind, 3, 4)
    values = torch.randn(5, 2, 3)
    new = torch.randn_like(peer.weight_hh_l0)
    layer.weight_hh_l0, peer.weight_hh_l0 = nn.Parameter(new), nn.Parameter(new.clone())
    assert_same(layer(values), peer(values))
    given = {name: torch.randn_like(weight) for name, weight in peer.named_parameters()}
    found = torch.func.functional_call(layer, given, (values,))
    assert_same(found, torch.func.functional_call(peer, given, (values,)))
    parametrizations.weight_norm(layer, "weight_hh_l0")
    length = layer.parametrizations.weight_hh_l0.original0
    with torch.no_grad():
        length.mul_(3)
        peer.weight_hh_l0.mul_(3)
    assert_same(layer(values), peer(values), 1e-6)
    layer(values)[0].sum().backward()
    assert length.grad is not None and length.grad.abs().sum() > 0
    torch.nn.utils.parametrize.remove_parametrizations(layer, "weight_hh_l0")
    assert_same(layer(values), peer(values), 1e-6)


def test_dropout_of_one_layer_warns_as_torch_does() -> None:
    with pytest.warns(UserWarning, match="num_layers is 1"):
        ours.LSTM(3, 4, dropout=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours.LSTM(3, 4, 2, dropout=1.0)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
@pytest.mark.parametrize("bias", [True, False])
def test_cells(kind: str, bias: bool) -> None:
    cell, peer = pair(kind, 3, 4, bias)
    assert list(cell.state_dict()) == list(peer.state_dict()) and repr(cell) == repr(peer)
    assert all(torch.equal(one, other) for one, other in zip(cell.parameters(), peer.parameters(), strict=True))
    for values in (torch.randn(2, 3), torch.randn(3)):
        found, wanted = cell(input=values, hx=None), peer(input=values, hx=None)
        assert_same(found, wanted)
        assert_same(cell(values, found), peer(values, wanted))
    step = cell.step(values[None], tuple(part[None] for part in flat(found))).state
    assert_same([part[0] for part in step], flat(cell(values, found)), 1e-6)
    with pytest.raises(ValueError, match="was made for 3 features"):
        cell(torch.randn(2, 5))
    double, peer_double = pair(kind, 3, 4, device="cpu", dtype=torch.float64)
    assert torch.equal(double.weight_hh, peer_double.weight_hh)


def test_weights_under_the_names_of_earlier_versions_load() -> None:
    layer = ours.LSTM(3, 4, 2, bidirectional=True, peephole="diagonal")
    old = {}
    for place, cell in enumerate(layer.cells):
        old |= {f"cells.{place}.{name}": torch.randn_like(weight) for name, weight in cell.named_weights()}
    layer.load_state_dict(old, strict=True)
    assert torch.equal(layer.weight_hh_l1_reverse, old["cells.3.weight_hh"])
    assert torch.equal(layer.cells[3].weight_ch, old["cells.3.weight_ch"])


def test_a_stack_of_a_cell_is_the_layer_and_draws_nothing_more() -> None:
    torch.manual_seed(3)
    stack = ours.Stack.of(ours.LSTMCell, 3, 4, num_layers=2, bidirectional=True)
    after = torch.rand(1)
    torch.manual_seed(3)
    layer = ours.LSTM(3, 4, 2, bidirectional=True)
    assert torch.equal(after, torch.rand(1))
    values = torch.randn(5, 2, 3)
    assert_same(stack(values), layer(values))
    assert repr(stack) == "Stack(LSTMCell, 3, 4, num_layers=2, bidirectional=True)"
    assert repr(ours.Stack.of(ours.LSTMCell, 3, 4, proj_size=2)) == "Stack(LSTMCell, 3, 4, proj_size=2)"


REPARAMETRIZED: dict[str, Callable[[nn.Module], object]] = {
    "prune": lambda cell: prune.l1_unstructured(cell, "weight_ih", 0.5),
    "weight_norm": lambda cell: nn.utils.weight_norm(cell, "weight_hh"),
    "spectral_norm": lambda cell: nn.utils.spectral_norm(cell, "weight_ih"),
    "parametrized": lambda cell: nn.utils.parametrizations.weight_norm(cell, "weight_ih"),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("name", REPARAMETRIZED)
@pytest.mark.parametrize("kind", [LSTMCell, GRUCell, RNNCell])
def test_utilities_that_replace_a_weight_work_on_cells_as_on_torchs(kind: Any, name: str) -> None:
    cell, peer, x = kind(3, 5), getattr(nn, kind.__name__)(3, 5), torch.randn(2, 3)
    for module in (cell, peer):
        REPARAMETRIZED[name](module)
    peer.load_state_dict(cell.state_dict())
    torch.testing.assert_close(cell(x), peer(x))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "layer",
    [LSTM(3, 5, proj_size=2), LSTM(3, 5), GRU(3, 5, reset="before"), RNN(3, 5, zoneout=0.5), Dropout(0.5)],
    ids=repr,
)
def test_a_trace_of_torch_jit_can_be_saved(layer: nn.Module) -> None:
    x, file = torch.randn(4, 2, 3), io.BytesIO()
    torch.jit.save(torch.jit.trace(layer, (x,), check_trace=False), file)
    file.seek(0)
    outputs = []
    for module in (torch.jit.load(file), layer):
        torch.manual_seed(3)
        outputs.append(module(x)[0])
    if not isinstance(layer, Dropout) and not layer.options.zoneout:  # a graph draws its noise in another way
        torch.testing.assert_close(*outputs)


@pytest.mark.parametrize(
    ("x", "problem"),
    [
        (torch.randn(3), "1 dimensions"),
        (torch.randn(2, 2, 2, 3), "4 dimensions"),
        (torch.randn(4, 2, 3).double(), r"torch.float64, but the weights are torch.float32"),
        (torch.ones(4, 2, 3, dtype=torch.long), r"torch.int64, but the weights are torch.float32"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_the_reason(x: Tensor, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        LSTM(3, 5)(x)


@pytest.mark.parametrize("option", ["dropout", "zoneout", "recurrent_dropout"])
def test_true_is_no_probability(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option} is True"):
        LSTM(3, 5, 2, **{option: True})


@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
def test_a_state_of_another_dtype_is_refused_with_the_reason(kind: Any) -> None:
    layer, x = kind(3, 5), torch.randn(4, 2, 3)
    state = torch.zeros(1, 2, 5, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"the state is torch.float64, but the weights are torch.float32"):
        layer(x, (state, state) if kind is LSTM else state)
    with pytest.raises(ValueError, match=r"the state is torch.float64, but the weights are torch.float32"):
        layer.cells[0](x[0], (state[0], state[0]) if kind is LSTM else state[0])
