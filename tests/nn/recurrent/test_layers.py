"""Layers that run torch's fused loop equal cells that step through one row at a time, padding or not."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from harken.nn import GRU, LSTM, GRUCell, LSTMCell

KINDS = {"lstm": (LSTM, LSTMCell), "gru": (GRU, GRUCell)}


@st.composite
def cases(draw: st.DrawFn) -> dict[str, object]:
    time = draw(st.integers(1, 5))
    return {
        "kind": draw(st.sampled_from(["lstm", "gru"])),
        "inputs": draw(st.integers(1, 3)),
        "hidden": draw(st.integers(1, 3)),
        "layers": draw(st.integers(1, 3)),
        "bidirectional": draw(st.booleans()),
        "lengths": draw(st.lists(st.integers(1, time), min_size=1, max_size=4)),
        "time": time,
        "with_state": draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def one_direction(cell: nn.Module, weights: dict[str, Tensor], row: Tensor, state: list[Tensor]) -> tuple[Tensor, list]:
    """Step through row (T, I) from `state`, each part (H,)."""
    outputs = []
    for values in row:
        before = tuple(part[None] for part in state) if len(state) == 2 else state[0][None]
        after = torch.func.functional_call(cell, weights, (values[None], before))
        state = [part[0] for part in after] if isinstance(after, tuple) else [after[0]]
        outputs.append(state[0])
    return torch.stack(outputs), state


def reference(
    kind: str, layer: nn.Module, row: Tensor, first: list[Tensor], layers: int, bidirectional: bool
) -> tuple[Tensor, list[Tensor]]:
    """One unpadded row (T, I), first states each (L x directions, H) -> output (T, H x directions) and last states."""
    last = []
    for depth in range(layers):
        ways = []
        directions = 2 if bidirectional else 1
        for way in range(directions):
            cell = KINDS[kind][1](row.shape[1], layer.hidden_size).double()
            weights = dict(layer.cells[depth * directions + way].named_weights())
            state = [part[len(last)] for part in first]
            output, state = one_direction(cell, weights, row.flip(0) if way else row, state)
            ways.append(output.flip(0) if way else output)
            last.append(state)
        row = torch.cat(ways, -1)
    return row, [torch.stack(parts) for parts in zip(*last, strict=True)]


@settings(deadline=None, max_examples=40)
@given(cases())
def test_layers_equal_the_cells_row_by_row(case: dict) -> None:
    torch.manual_seed(case["seed"])
    kind, lengths, time, hidden = case["kind"], case["lengths"], case["time"], case["hidden"]
    layers, bidirectional = case["layers"], case["bidirectional"]
    layer = KINDS[kind][0](case["inputs"], hidden, layers, bidirectional=bidirectional, batch_first=True).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    values = torch.randn(len(lengths), time, case["inputs"], dtype=torch.float64, requires_grad=True)
    count = layers * (2 if bidirectional else 1)
    parts = 2 if kind == "lstm" else 1
    first = [torch.zeros(count, len(lengths), hidden, dtype=torch.float64) for _ in range(parts)]
    if case["with_state"]:
        first = [torch.randn_like(part) for part in first]
    state = (tuple(first) if parts == 2 else first[0]) if case["with_state"] else None
    output, last = layer(values, state, lengths=torch.tensor(lengths))
    last = list(last) if parts == 2 else [last]
    wanted_output, wanted_last = torch.zeros_like(output), [[] for _ in range(parts)]
    for row, length in enumerate(lengths):
        alone = [part[:, row] for part in first]
        right, states = reference(kind, layer, values[row, :length], alone, layers, bidirectional)
        wanted_output[row, :length] = right
        for kept, part in zip(wanted_last, states, strict=True):
            kept.append(part)
    assert torch.allclose(output, wanted_output, rtol=0, atol=1e-9)
    for row, length in enumerate(lengths):
        assert (output[row, length:] == 0).all()
    for found, kept in zip(last, wanted_last, strict=True):
        assert torch.allclose(found, torch.stack(kept, 1), rtol=0, atol=1e-9)

    into = [values, *layer.parameters()]
    weights = torch.randn_like(output)
    fast = torch.autograd.grad((output * weights).sum() + sum(part.sin().sum() for part in last), into)
    slow_loss = (wanted_output * weights).sum() + sum(torch.stack(kept, 1).sin().sum() for kept in wanted_last)
    for found, right in zip(fast, torch.autograd.grad(slow_loss, into), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_padding_and_neighbours_change_nothing(kind: str) -> None:
    """The same sentence alone, in a longer batch, and with anything at all in its padding."""
    torch.manual_seed(2)
    layer = KINDS[kind][0](3, 4, 2, bidirectional=True, batch_first=True)
    sentence = torch.randn(4, 3)
    batch = torch.randn(3, 7, 3)
    batch[1, :4] = sentence
    alone, state_alone = layer(sentence[None])
    for filler in (0.0, 1e6, float("nan")):
        batch[1, 4:] = filler
        output, state = layer(batch, lengths=torch.tensor([2, 4, 7]))
        assert torch.allclose(output[1, :4], alone[0], atol=1e-6)
        pairs = zip(state, state_alone, strict=True) if kind == "lstm" else [(state, state_alone)]
        for found, right in pairs:
            assert torch.allclose(found[:, 1], right[:, 0], atol=1e-6)


@pytest.mark.parametrize(("ours", "theirs"), [(LSTM, nn.LSTM), (GRU, nn.GRU)])
def test_state_dict_is_torchs_both_ways(ours: type[nn.Module], theirs: type[nn.RNNBase]) -> None:
    torch.manual_seed(3)
    layer, peer = (kind(3, 4, 2, bidirectional=True, batch_first=True) for kind in (ours, theirs))
    values = torch.randn(2, 5, 3)
    assert not torch.allclose(layer(values)[0], peer(values)[0])
    peer.load_state_dict(layer.to_torch().state_dict())
    assert torch.equal(layer(values)[0], peer(values)[0])
    other = theirs(3, 4, 2, batch_first=True, bidirectional=True)
    layer.load_state_dict(other.state_dict())
    assert torch.equal(layer(values)[0], other(values)[0])
    first_version = {f"encoder.0.inner.{name}": weight for name, weight in peer.state_dict().items()}
    holder = nn.ModuleDict({"encoder": nn.ModuleList([layer])})
    holder.load_state_dict(first_version)
    assert torch.equal(layer(values)[0], peer(values)[0])
    assert next(iter(holder.state_dict())) == "encoder.0.weight_ih_l0"


def test_first_weights() -> None:
    """Forget gates start open, other biases at 0, and every recurrent block keeps lengths (orthogonal)."""
    layer = LSTM(3, 4, 2, bidirectional=True, orthogonal=True)
    for name, parameter in layer.named_parameters():
        if "bias" in name:
            _, forget, _, _ = parameter.chunk(4)
            assert (forget == (1.0 if "bias_ih" in name else 0.0)).all()
            assert parameter.sum() == forget.sum()
        elif "weight_hh" in name:
            for block in parameter.split(4):
                assert torch.allclose(block @ block.t(), torch.eye(4), atol=1e-5)
    gru = GRU(3, 4, orthogonal=True)
    assert all((parameter == 0).all() for name, parameter in gru.named_parameters() if "bias" in name)
