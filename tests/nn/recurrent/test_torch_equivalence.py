"""Layers made from torch's and given back to it: equal outputs and gradients, however torch can be called."""

from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from harken.nn import GRU, LSTM, RNN

PEERS: list[tuple[Any, type[nn.RNNBase], dict[str, Any]]] = [
    (RNN, nn.RNN, {}),
    (RNN, nn.RNN, {"nonlinearity": "relu", "bias": False}),
    (LSTM, nn.LSTM, {}),
    (LSTM, nn.LSTM, {"proj_size": 2}),
    (LSTM, nn.LSTM, {"bias": False}),
    (GRU, nn.GRU, {}),
]


def parts_of(state: Any) -> tuple[Any, ...]:
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize(("ours", "theirs", "options"), PEERS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("loop", ["fused", "traced"])
def test_equal_outputs_and_gradients(
    ours: Any, theirs: type[nn.RNNBase], options: dict, batch_first: bool, loop: str
) -> None:
    torch.manual_seed(1)
    peer = theirs(3, 4, 2, batch_first=batch_first, bidirectional=True, dtype=torch.float64, **options)
    layer = ours.from_torch(peer)
    values = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    output, state = layer(values, trace=loop == "traced")[:2]
    right, right_state = peer(values)
    for found, wanted in zip((output, *parts_of(state)), (right, *parts_of(right_state)), strict=True):
        assert found.shape == wanted.shape
        assert torch.allclose(found, wanted, rtol=0, atol=1e-9)
    weights = torch.randn_like(right)
    inside = torch.autograd.grad((output * weights).sum(), [values, *layer.parameters()])
    outside = torch.autograd.grad((right * weights).sum(), [values, *peer.parameters()])
    for found, wanted in zip(inside, outside, strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-9)
    back = layer.to_torch()
    assert (type(back), back.batch_first, back.extra_repr()) == (theirs, batch_first, peer.extra_repr())
    assert torch.equal(back(values)[0], right)


@pytest.mark.parametrize(("ours", "theirs", "options"), [PEERS[0], PEERS[2], PEERS[5]])
def test_packed_and_single_sequences_as_torch_takes_them(ours: Any, theirs: Any, options: dict) -> None:
    torch.manual_seed(2)
    peer = theirs(3, 4, bidirectional=True)
    layer = ours.from_torch(peer)
    packed = pack_padded_sequence(torch.randn(5, 3, 3), torch.tensor([2, 5, 3]), enforce_sorted=False)
    output, state = layer(packed)
    right, right_state = peer(packed)
    assert torch.allclose(output.data, right.data, atol=1e-6)
    assert torch.equal(pad_packed_sequence(output)[1], torch.tensor([2, 5, 3]))
    for found, wanted in zip(parts_of(state), parts_of(right_state), strict=True):
        assert torch.allclose(found, wanted, atol=1e-6)
    single = torch.randn(5, 3)
    output, state = layer(input=single, hx=None)
    again, _ = layer(single, state)
    right, right_state = peer(single)
    assert output.shape == right.shape == (5, 8)
    assert torch.allclose(output, right, atol=1e-6)
    assert torch.allclose(again, peer(single, right_state)[0], atol=1e-6)


def test_one_bias_becomes_two_of_which_one_is_zero() -> None:
    layer = LSTM(3, 4, bias="one", batch_first=True)
    peer = layer.to_torch()
    assert (peer.bias_hh_l0 == 0).all()
    values = torch.randn(2, 5, 3)
    assert torch.allclose(peer(values)[0], layer(values)[0], atol=1e-6)


def test_what_torch_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"torch.nn.LSTM has no peephole='full', coupled=True, zoneout=0.1"):
        LSTM(3, 4, peephole="full", coupled=True, zoneout=0.1, batch_first=True).to_torch()
    with pytest.raises(ValueError, match="reset='before'"):
        GRU(3, 4, reset="before", batch_first=True).to_torch()
    with pytest.raises(ValueError, match=r"takes torch.nn.GRU, not torch.*LSTM"):
        GRU.from_torch(nn.LSTM(3, 4))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LSTM(3, 4, peephole="diagnal", batch_first=True), "did you mean 'diagonal'"),
        (lambda: LSTM(3, 4, proj_size=4, batch_first=True), "less than hidden_size"),
        (lambda: LSTM(3, 4, connections="residul", batch_first=True), "did you mean 'residual'"),
        (lambda: GRU(3, 4, reset="never", batch_first=True), "'after' or 'before'"),
        (lambda: RNN(3, 4, nonlinearity="sigmoidal", batch_first=True), "did you mean 'sigmoid'"),
        (lambda: GRU(3, 4, zoneout=1.0, batch_first=True), "zoneout is 1.0"),
        (lambda: GRU(3, 4, num_layers=0, batch_first=True), "num_layers is 0"),
        (lambda: GRU(3, 4, batch_first=True)(torch.randn(2, 5, 2)), "2 features, but the layer was made for 3"),
        (lambda: GRU(3, 4, batch_first=True)(torch.randn(2, 0, 3)), "no step"),
        (lambda: GRU(3, 4, batch_first=True)(torch.randn(2, 5, 3), lengths=torch.tensor([5, 6])), "from 5 to 6"),
        (lambda: GRU(3, 4, batch_first=True)(torch.randn(2, 5, 3), lengths=torch.tensor([5])), "each of the 2 rows"),
        (lambda: LSTM(3, 4, batch_first=True)(torch.randn(2, 5, 3), torch.zeros(1, 2, 4)), "need"),
    ],
)
def test_refusals_say_why(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True}], ids=str)
@pytest.mark.parametrize("kind", [RNN, LSTM, GRU])
def test_a_call_records_the_operations_that_torchs_records(kind: Any, options: dict[str, Any]) -> None:
    """No more nodes in the graph than torch's layer has, so that small calls take no longer."""

    def nodes(module: nn.Module) -> Counter[str]:
        output, _ = module(torch.randn(4, 5, 3, dtype=torch.float64, requires_grad=True))
        reached, waiting = {output.grad_fn}, [output.grad_fn]
        while waiting:
            further = {node for node, _ in waiting.pop().next_functions if node is not None} - reached
            reached |= further
            waiting += further
        return Counter(node.name().rstrip("0123456789") for node in reached)  # without the number of an overload

    shape: dict[str, Any] = {"batch_first": True, "dtype": torch.float64, **options}
    assert nodes(kind(3, 6, **shape)) == nodes(kind.peer(3, 6, **shape))
