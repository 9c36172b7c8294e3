"""Which way a call takes: what was measured to be the quickest for its shape, and what the machine has."""

import pytest
import torch
from torch import nn

from harken.kernels.recurrent.cpu import operator as cpu_recurrent
from harken.kernels.settings import kernels_enabled
from harken.nn import GRU, LSTM, RNN


def chosen(layer: nn.Module, batch: int, time: int, lengths: list[int] | None = None, trace: bool = False) -> str:
    values = torch.zeros(batch, time, layer.input_size, dtype=layer.cells[0].weight_hh.dtype)
    return layer.backend(values, None if lengths is None else torch.tensor(lengths), trace)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harken.kernels.recurrent.cpu.operator.is_available", lambda: True)
    monkeypatch.delenv("HARKEN_KERNELS", raising=False)


@pytest.mark.usefixtures("kernels")
def test_large_layers_take_the_kernel_and_small_ones_torchs_loop() -> None:
    large, small = LSTM(512, 512, batch_first=True), LSTM(64, 64, batch_first=True)
    assert chosen(large, 64, 64) == "cpu"
    assert chosen(small, 32, 64) == "torch"
    assert chosen(large, 16, 64) == "torch"
    assert chosen(large, 64, 1) == "torch"
    with torch.no_grad():
        assert chosen(large, 64, 64) == "torch"
    assert chosen(large, 1, 64) == "torch"
    assert chosen(GRU(256, 256, batch_first=True), 32, 32) == "cpu"
    assert chosen(RNN(256, 256, batch_first=True), 32, 32) == "torch"
    assert chosen(LSTM(64, 64, peephole="diagonal", batch_first=True), 32, 64) == "cpu"
    assert chosen(LSTM(64, 64, peephole="diagonal", batch_first=True), 32, 2) == "loop"


@pytest.mark.usefixtures("kernels")
def test_rows_of_unequal_length() -> None:
    lengths = [64, 32] * 16
    assert chosen(LSTM(64, 64, batch_first=True), 32, 64, lengths) == "cpu"
    assert chosen(RNN(64, 64, batch_first=True), 32, 64, lengths) == "loop"
    with torch.no_grad():
        assert chosen(LSTM(64, 64, batch_first=True), 32, 64, lengths) == "torch"
        assert chosen(LSTM(64, 64, batch_first=True), 32, 64, [*lengths[1:], 0]) == "cpu"  # torch knows no empty rows


@pytest.mark.usefixtures("kernels")
def test_what_the_kernel_does_not_know_goes_the_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = LSTM(512, 512, batch_first=True)
    assert chosen(layer, 64, 64, trace=True) == "loop"
    assert chosen(LSTM(512, 512, dtype=torch.float64, batch_first=True), 64, 64) == "torch"
    with torch.autocast("cpu", torch.bfloat16):
        assert chosen(layer, 64, 64) == "torch"
        output, _ = LSTM(8, 8, coupled=True, batch_first=True)(torch.randn(4, 9, 8))
        assert output.isfinite().all()
    monkeypatch.setenv("HARKEN_KERNELS", "off")
    assert chosen(layer, 64, 64) == "torch"
    assert chosen(LSTM(512, 512, coupled=True, batch_first=True), 64, 64) == "loop"
    monkeypatch.delenv("HARKEN_KERNELS")
    monkeypatch.setattr("harken.kernels.recurrent.cpu.operator.is_available", lambda: False)
    assert chosen(layer, 64, 64) == "torch"


def test_numba_stays_out_of_the_way_until_it_is_needed() -> None:
    assert kernels_enabled()
    assert "numba" not in vars(cpu_recurrent)


@pytest.mark.usefixtures("kernels")
def test_small_batches_of_unequal_rows_take_the_kernel_and_one_row_torchs_loop() -> None:
    assert chosen(LSTM(64, 64, batch_first=True), 4, 30, [30, 27, 23, 19]) == "cpu"
    assert chosen(GRU(32, 32, batch_first=True), 2, 20, [20, 15]) == "cpu"
    assert chosen(LSTM(64, 64, batch_first=True), 1, 30, [29]) == "torch"
    assert chosen(LSTM(64, 64, batch_first=True), 3, 30, [29, 29, 29]) == "torch"
