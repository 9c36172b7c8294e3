"""Peepholes, coupled gates, projections, both forms of the GRU, vanilla RNNs: numbers, counts and gradients."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harken.nn import LSTM, GRUCell, LSTMCell, RNNCell

CELLS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "tanh": (RNNCell, {}),
    "relu": (RNNCell, {"nonlinearity": "relu"}),
    "sigmoid": (RNNCell, {"nonlinearity": "sigmoid", "layer_norm": True}),
    "lstm": (LSTMCell, {"layer_norm": True}),
    "diagonal": (LSTMCell, {"peephole": "diagonal"}),
    "full": (LSTMCell, {"peephole": "full", "proj_size": 1}),
    "coupled": (LSTMCell, {"coupled": True, "peephole": "diagonal"}),
    "after": (GRUCell, {"layer_norm": True}),
    "before": (GRUCell, {"reset": "before"}),
    "before, normalised": (GRUCell, {"reset": "before", "layer_norm": True}),
}


def cell_of(name: str, inputs: int, hidden: int) -> Any:
    kind, options = CELLS[name]
    cell = kind(inputs, hidden, **options).double()
    for parameter in cell.parameters():
        nn.init.normal_(parameter)
    return cell


@pytest.mark.parametrize("name", CELLS)
def test_first_and_second_derivatives(name: str) -> None:
    torch.manual_seed(1)
    cell = cell_of(name, 2, 3)
    names = [key for key, _ in cell.named_parameters()]
    leaves = [torch.randn(1, 2), *(torch.randn(1, size) for size in cell.state_sizes)]
    leaves = [leaf.double().requires_grad_() for leaf in leaves]
    weights = [parameter.detach().requires_grad_() for parameter in cell.parameters()]

    def run(x: Tensor, *others: Tensor) -> Any:
        state, given = others[: len(cell.state_sizes)], others[len(cell.state_sizes) :]
        arguments = (x, state if len(state) > 1 else state[0])
        return torch.func.functional_call(cell, dict(zip(names, given, strict=True)), arguments)

    assert torch.autograd.gradcheck(run, (*leaves, *weights))
    assert torch.autograd.gradgradcheck(run, (*leaves, *weights))


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid"])
def test_rnn_is_e1(nonlinearity: str) -> None:
    cell = RNNCell(3, 4, nonlinearity=nonlinearity).double()
    x, h = torch.randn(2, 3).double(), torch.randn(2, 4).double()
    inner = x @ cell.weight_ih.t() + cell.bias_ih + h @ cell.weight_hh.t() + cell.bias_hh
    assert torch.allclose(cell(x, h), getattr(torch, nonlinearity)(inner), rtol=0, atol=1e-12)


def test_gru_before_is_e6() -> None:
    cell = cell_of("before", 3, 4)
    x, h = torch.randn(2, 3).double(), torch.randn(2, 4).double()
    (input_r, input_z, input_n), (hidden_r, hidden_z, hidden_n) = cell.weight_ih.chunk(3), cell.weight_hh.chunk(3)
    bias_r, bias_z, bias_n = (cell.bias_ih + cell.bias_hh).chunk(3)
    reset = torch.sigmoid(x @ input_r.t() + h @ hidden_r.t() + bias_r)
    update = torch.sigmoid(x @ input_z.t() + h @ hidden_z.t() + bias_z)
    candidate = torch.tanh(x @ input_n.t() + (reset * h) @ hidden_n.t() + bias_n)
    assert torch.allclose(cell(x, h), (1 - update) * h + update * candidate, rtol=0, atol=1e-12)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("peephole", ["diagonal", "full"])
def test_peepholes_are_e4(peephole: str, coupled: bool) -> None:
    """Forget and input gates see the old cell, the output gate the new one; a diagonal is a matrix of it."""
    torch.manual_seed(2)
    cell = LSTMCell(3, 4, peephole=peephole, coupled=coupled).double()
    nn.init.normal_(cell.weight_ch)
    seen = 2 if coupled else 3
    assert cell.weight_ch.shape == ((4 * seen,) if peephole == "diagonal" else (4 * seen, 4))
    x, h, c = torch.randn(2, 3).double(), torch.randn(2, 4).double(), torch.randn(2, 4).double()
    blocks = [torch.diag(block) if peephole == "diagonal" else block for block in cell.weight_ch.chunk(seen)]
    gates = (x @ cell.weight_ih.t() + h @ cell.weight_hh.t() + cell.bias_ih + cell.bias_hh).split(4, -1)
    forget = torch.sigmoid(gates[-3] + c @ blocks[-2].t())
    write = 1 - forget if coupled else torch.sigmoid(gates[0] + c @ blocks[0].t())
    kept = forget * c + write * torch.tanh(gates[-2])
    shown = torch.sigmoid(gates[-1] + kept @ blocks[-1].t()) * torch.tanh(kept)
    for found, right in zip(cell(x, (h, c)), (shown, kept), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-12)


def test_layer_norm_makes_the_scale_of_inputs_and_states_irrelevant() -> None:
    cell = LSTMCell(3, 8, layer_norm=True).double()
    x, h, c = torch.randn(2, 3).double(), torch.randn(2, 8).double(), torch.randn(2, 8).double()
    for found, right in zip(cell(100 * x, (1000 * h, c)), cell(10 * x, (10 * h, c)), strict=True):
        assert torch.allclose(found, right, atol=1e-3)


@pytest.mark.parametrize("peephole", [None, "diagonal", "full"])
def test_parameters_of_layers(peephole: str | None) -> None:
    m, n = 3, 5
    count = sum(p.numel() for p in LSTM(m, n, bias="one", peephole=peephole, batch_first=True).parameters())
    assert count == 4 * (m * n + n * n + n) + {None: 0, "diagonal": 3 * n, "full": 3 * n * n}[peephole]
    coupled = sum(p.numel() for p in LSTM(m, n, bias="one", coupled=True, batch_first=True).parameters())
    assert coupled == 3 * (m * n + n * n + n)


def test_an_open_forget_gate_and_a_shut_input_gate_keep_the_cell() -> None:
    """Over 300 steps; with coupled gates an open forget gate is enough."""
    cell = torch.randn(1, 2, 4, dtype=torch.float64)
    for coupled in (False, True):
        layer = LSTM(3, 4, coupled=coupled, dtype=torch.float64, batch_first=True)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.mul_(0.01)
            bias = layer.cells[0].bias_ih.view(-1, 4)
            bias[0 if coupled else 1] = 60.0
            if not coupled:
                bias[0] = -60.0
        _, (_, last) = layer(torch.randn(2, 300, 3, dtype=torch.float64), (torch.zeros_like(cell), cell))
        assert torch.allclose(last, cell, rtol=0, atol=1e-12)


def test_first_weights_of_variants() -> None:
    layer = LSTM(3, 4, coupled=True, peephole="full", forget_bias=2.5, layer_norm=True, proj_size=2, orthogonal=True)
    cell = layer.cells[0]
    assert cell.bias_ih.tolist() == [2.5] * 4 + [0.0] * 8
    assert (cell.weight_ch == 0).all()
    assert (cell.norm_ih.weight == 1).all()
    for block in cell.weight_hh.split(4):
        assert torch.allclose(block.t() @ block, torch.eye(2), atol=1e-5)
    as_torch = LSTM(3, 4, orthogonal=False, forget_bias=None, batch_first=True).cells[0]
    assert as_torch.weight_hh.abs().max() <= 0.5
    assert (as_torch.bias_hh != 0).all()
