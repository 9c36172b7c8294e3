"""Weight drop: a dropped copy of U in the place of U, on whichever path the layer takes."""

import pytest
import torch
import torch.nn.functional as F

from harken.nn import GRU, LSTM, RNN
from harken.nn.recurrent.regularization import call_with_dropped_weights


@pytest.mark.parametrize("kind", [LSTM, GRU, RNN])
def test_the_layer_computes_with_the_dropped_matrix_and_its_gradient_is_masked(kind: type) -> None:
    torch.manual_seed(3)
    layer, values = kind(4, 6, num_layers=2), torch.randn(3, 9, 4)
    torch.manual_seed(8)
    masks = [F.dropout(torch.ones_like(cell.weight_hh), 0.5) for cell in layer.cells]
    torch.manual_seed(8)
    found, _ = call_with_dropped_weights(layer, 0.5, values)
    twin = kind(4, 6, num_layers=2)
    twin.load_state_dict(layer.state_dict())
    with torch.no_grad():
        for cell, mask in zip(twin.cells, masks, strict=True):
            cell.weight_hh.mul_(mask)
    wanted, _ = twin(values)
    assert torch.allclose(found, wanted, atol=1e-6)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for cell, other, mask in zip(layer.cells, twin.cells, masks, strict=True):
        assert torch.allclose(cell.weight_hh.grad, other.weight_hh.grad * mask, atol=1e-5)
        assert torch.allclose(cell.weight_ih.grad, other.weight_ih.grad, atol=1e-5)


def test_it_does_not_force_the_slow_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("the loop was taken")

    monkeypatch.setattr("harken.nn.recurrent.unroll.unroll_packed", slow)
    for layer in (LSTM(8, 16, batch_first=True), GRU(8, 96, batch_first=True)):
        call_with_dropped_weights(layer, 0.5, torch.randn(64, 20, 8))[0].sum().backward()
        assert layer.cells[0].weight_hh.grad.abs().sum() > 0


def test_nothing_is_dropped_outside_training_and_the_weights_stay() -> None:
    layer, values = LSTM(3, 5, batch_first=True), torch.randn(2, 4, 3)
    before = layer.cells[0].weight_hh.detach().clone()
    call_with_dropped_weights(layer, 0.9, values)
    assert torch.equal(layer.cells[0].weight_hh, before)
    assert isinstance(layer.cells[0].weight_hh, torch.nn.Parameter)
    layer.eval()
    assert torch.equal(call_with_dropped_weights(layer, 0.9, values)[0], layer(values)[0])
