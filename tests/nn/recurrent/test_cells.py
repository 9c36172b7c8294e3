"""The cells compute their equations, and torch's own cells with the same weights."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from harken.nn import LSTM, GRUCell, LSTMCell, Stack
from harken.nn.recurrent.cell import Cell, Step

sizes = st.integers(1, 6)


@settings(deadline=None, max_examples=20)
@given(sizes, sizes)
def test_lstm_has_4_times_mn_plus_n2_plus_n_parameters(m: int, n: int) -> None:
    count = sum(parameter.numel() for parameter in LSTMCell(m, n, bias="one").parameters())
    assert count == 4 * (m * n + n * n + n)
    assert sum(parameter.numel() for parameter in LSTMCell(m, n).parameters()) == count + 4 * n


def test_lstm_gate_by_gate() -> None:
    """Gate by gate with numbers: one unit, all weights 0 but one for each gate."""
    cell = LSTMCell(1, 1, bias="one")
    with torch.no_grad():
        cell.weight_ih.copy_(torch.tensor([[0.5], [-1.0], [2.0], [0.25]]))  # i, f, g, o
        cell.weight_hh.copy_(torch.tensor([[1.0], [0.5], [-0.5], [2.0]]))
        cell.bias_ih.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]))
    x, h, c = torch.tensor(0.7), torch.tensor(-0.3), torch.tensor(1.5)
    forget = torch.sigmoid(-1.0 * x + 0.5 * h + 0.2)
    write = torch.sigmoid(0.5 * x + 1.0 * h + 0.1)
    kept = forget * c + write * torch.tanh(2.0 * x - 0.5 * h + 0.3)
    shown = torch.sigmoid(0.25 * x + 2.0 * h + 0.4) * torch.tanh(kept)
    hidden, memory = cell(x.view(1, 1), (h.view(1, 1), c.view(1, 1)))
    assert torch.allclose(memory, kept, atol=1e-6)
    assert torch.allclose(hidden, shown, atol=1e-6)


@settings(deadline=None, max_examples=15)
@given(sizes, sizes, st.integers(1, 4))
def test_lstm_is_torchs(m: int, n: int, batch: int) -> None:
    ours, theirs = LSTMCell(m, n).double(), nn.LSTMCell(m, n).double()
    theirs.load_state_dict(ours.state_dict())
    x, h, c = (torch.randn(batch, width, dtype=torch.float64) for width in (m, n, n))
    for found, right in zip(ours(x, (h, c)), theirs(x, (h, c)), strict=True):
        assert torch.allclose(found, right, rtol=0, atol=1e-12)


@settings(deadline=None, max_examples=15)
@given(sizes, sizes, st.integers(1, 4))
def test_gru_is_torchs(m: int, n: int, batch: int) -> None:
    ours, theirs = GRUCell(m, n).double(), nn.GRUCell(m, n).double()
    theirs.load_state_dict(ours.state_dict())
    x, h = (torch.randn(batch, width, dtype=torch.float64) for width in (m, n))
    assert torch.allclose(ours(x, h), theirs(x, h), rtol=0, atol=1e-12)


def test_one_bias_is_two_with_one_of_them_zero() -> None:
    one, two = LSTMCell(3, 4, bias="one"), LSTMCell(3, 4)
    two.load_state_dict({**one.state_dict(), "bias_hh": torch.zeros(16)})
    x, h, c = torch.randn(2, 3), torch.randn(2, 4), torch.randn(2, 4)
    for found, right in zip(one(x, (h, c)), two(x, (h, c)), strict=True):
        assert torch.allclose(found, right, atol=1e-6)


@pytest.mark.parametrize("kind", [LSTMCell, GRUCell])
def test_gradients(kind: type[nn.Module]) -> None:
    torch.manual_seed(1)
    cell = kind(2, 3).double()
    names = [name for name, _ in cell.named_parameters()]
    weights = [parameter.detach().requires_grad_() for parameter in cell.parameters()]
    x = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)
    h = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    c = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def run(x: Tensor, h: Tensor, c: Tensor, *weights: Tensor) -> Tensor | tuple[Tensor, ...]:
        state = (h, c) if kind is LSTMCell else h + 0 * c
        return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x, state))

    assert torch.autograd.gradcheck(run, (x, h, c, *weights))


class Doubled(LSTMCell):
    """An LSTM whose state is twice that of the paper."""

    def step(self, x: Tensor, state: Any, products: Any = None, keep: Tensor | None = None) -> Step:
        made = super().step(x, state, products, keep)
        return made._replace(state=tuple(2 * part for part in made.state))


def test_a_subclass_with_its_own_step_is_honoured_by_cell_and_stack() -> None:
    cell, x = Doubled(3, 5), torch.randn(2, 3)
    assert not cell.is_plain and LSTMCell(3, 5).is_plain
    torch.testing.assert_close(cell(x), cell.step(x, cell.start(x)).state)
    for sizes in ((3, 5), (3, 64)):
        stack, x = Stack.of(Doubled, *sizes), torch.randn(20, 64, 3)
        torch.testing.assert_close(stack(x)[0], stack.reference(x)[0])
        with torch.no_grad():
            torch.testing.assert_close(stack(x)[0], stack.reference(x)[0])


def test_a_replaced_step_and_a_hook_make_a_cell_its_own() -> None:
    cell = LSTMCell(3, 5)
    cell.step = Doubled.step.__get__(cell)
    assert not cell.is_plain
    cell, calls = LSTMCell(3, 5), []
    handle = cell.register_forward_hook(lambda *_: calls.append(1))
    assert not cell.is_plain
    cell(torch.randn(2, 3))
    handle.remove()
    assert cell.is_plain and calls == [1]
    layer = LSTM(3, 5)
    layer.cells[0].step = Doubled.step.__get__(layer.cells[0])
    assert layer.backend(torch.randn(4, 2, 3)) == "loop"


def test_the_biases_of_a_cell_of_ones_own_are_one_sum_whatever_it_is_called() -> None:
    """No gate of it is known to have a bias inside a reset, as the candidate of `GRUCell` has."""
    cell = Cell("gru", 2, 3, gates=3)
    with torch.no_grad():
        for bias, value in ((cell.bias_ih, 1.0), (cell.bias_hh, 2.0)):
            assert bias is not None
            bias.fill_(value)
    assert torch.equal(cell.summed_bias(), torch.full((9,), 3.0))
