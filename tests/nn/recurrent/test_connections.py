"""Residual, highway and dense stacks are their formulas, and dropout lies between layers alone."""

import pytest
import torch
from torch import Tensor

from harken.nn import GRU, LSTM
from harken.nn.recurrent.connections import Connections


def alone(stack: GRU, depth: int, width: int) -> GRU:
    """Layer `depth` of a bidirectional stack by itself."""
    layer = GRU(width, 4, bidirectional=True, dtype=torch.float64, batch_first=True)
    for way in (0, 1):
        with torch.no_grad():
            for weight, value in zip(layer.all_weights[way], stack.all_weights[2 * depth + way], strict=True):
                weight.copy_(value)
    return layer


@pytest.mark.parametrize("kind", [None, "residual", "highway", "dense"])
def test_three_layers_by_hand(kind: str | None) -> None:
    torch.manual_seed(1)
    stack = GRU(3, 4, 3, bidirectional=True, connections=kind, dtype=torch.float64, batch_first=True)
    values = torch.randn(2, 5, 3, dtype=torch.float64)
    lengths = torch.tensor([3, 5])

    def run(depth: int, inputs: Tensor) -> Tensor:
        return alone(stack, depth, inputs.shape[-1])(inputs, lengths=lengths)[0]

    first = run(0, values)
    if kind == "dense":
        second = run(1, torch.cat((values, first), -1))
        third = run(2, torch.cat((values, first, second), -1))
    else:
        below, outputs = first, []
        for depth in (1, 2):
            made = run(depth, below)
            if kind == "residual":
                made = below + made
            elif kind == "highway":
                gate = torch.sigmoid(stack.connections.gates[depth - 1](below))
                made = gate * made + (1 - gate) * below
            outputs.append(made)
            below = made
        third = outputs[-1]
    output, last = stack(values, lengths=lengths)
    running = (torch.arange(5) < lengths[:, None])[..., None]
    assert torch.allclose(output, third * running, rtol=0, atol=1e-12)
    assert (output.shape, last.shape) == ((2, 5, 8), (6, 2, 4))


def test_highway_gates_start_mostly_shut() -> None:
    stack = LSTM(3, 4, 3, connections="highway", batch_first=True)
    assert [gate.bias.tolist() for gate in stack.connections.gates] == [[-1.0] * 4] * 2


@pytest.mark.filterwarnings("ignore:dropout is between layers")
def test_dropout_lies_between_layers_alone() -> None:
    torch.manual_seed(2)
    values = torch.randn(2, 5, 3)
    one, two = LSTM(3, 8, dropout=0.5, batch_first=True), LSTM(3, 8, 2, dropout=0.5, batch_first=True)
    assert torch.equal(one(values)[0], one(values)[0])
    _, (first, _) = two(values)
    output, (second, _) = two(values)
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
    assert (output != 0).all()
    two.eval()
    assert torch.equal(two(values)[0], two(values)[0])


@pytest.mark.parametrize("kind", ["residual", "highway", "dense"])
def test_connections_that_begin_higher_up(kind: str) -> None:
    """Below `first` layers read and hand on as without connections; from it on, as with them."""
    late, plain = Connections(kind, 3, 4, 4, first=2), Connections(kind, 3, 4, 4)
    assert late.input_sizes == [3, 4, *plain.input_sizes[2:]]
    values = [torch.randn(2, 3), *(torch.randn(2, 4) for _ in range(3))]
    made = torch.randn(2, 4)
    assert torch.equal(late.into(values[:2]), values[1])
    assert torch.equal(late.out(1, values[:2], made), made)
    assert torch.equal(late.into(values[:3]), plain.into(values[:3]))
    if kind == "highway":
        assert len(late.gates) == 2
        plain.gates[1].load_state_dict(late.gates[0].state_dict())
    assert torch.equal(late.out(2, values[:3], made), plain.out(2, values[:3], made))
