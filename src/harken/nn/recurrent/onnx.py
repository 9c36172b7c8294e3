"""A recurrent layer as an ONNX file that takes any number of rows and any number of steps.

A loop that is traced has one copy of the cell for each step it was traced with. ONNX's own RNN, LSTM and GRU are the
whole loop, both directions and rows of unequal length included; so each layer of a stack becomes one of these, with
its weights in their order (`onnx_weights.py`, `onnx_graph.py`).

>>> from harken.nn import LSTM
>>> export_onnx(LSTM(3, 5, num_layers=2, peephole="full", batch_first=True), "layer.onnx")
Traceback (most recent call last):
...
ValueError: ONNX's LSTM has no peephole='full'; export a fixed number of steps with torch.onnx.export(..., dynamo=True)
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from harken.nn.recurrent.onnx_graph import Graph
from harken.nn.recurrent.onnx_weights import lacking
from harken.nn.recurrent.stack import Stack


def export_onnx(layer: nn.Module, path: str | Path, *, lengths: bool = True, state: bool = False) -> Path:
    """Write an RNN, LSTM or GRU of `harken.nn` as it evaluates, in float32, to an ONNX file; the path comes back.

    Inputs are `values` (B, T, I), or (T, B, I) with `batch_first=False`; `lengths` (B,) int64, unless `lengths=False`;
    with `state=True` the first state `h_0` and, of an LSTM, `c_0`, each (layers x directions, B, H). Outputs are
    `output`, `h_n` and `c_n`, shaped as the layer's. B and T are free.

    Raises:
        ValueError: the layer has an option that ONNX's operator lacks.
        ModuleNotFoundError: the package `onnx` is not installed.
    """
    stack = _exportable(layer)
    try:
        import onnx
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError("export_onnx needs the package onnx: pip install onnx") from missing
    model = Graph(onnx, stack, lengths, state).model()
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))
    return Path(path)


def _exportable(layer: nn.Module) -> Stack:
    if not isinstance(layer, Stack):
        raise ValueError(f"export_onnx takes an RNN, LSTM or GRU of harken.nn, not {type(layer).__name__}")
    options = lacking(layer.cells_of(0)[0])
    options += [f"zoneout={layer.options.zoneout}"] if layer.options.zoneout else []
    if options:
        raise ValueError(
            f"ONNX's {type(layer).__name__} has no {', '.join(options)}; export a fixed number of steps with "
            "torch.onnx.export(..., dynamo=True)"
        )
    return layer
