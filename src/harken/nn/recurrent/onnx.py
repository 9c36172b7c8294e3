"""Recurrent layers as ONNX files that take any number of rows and any number of steps.

A traced loop has one copy of the cell for each step it was traced with. ONNX's own RNN, LSTM and GRU are the whole
loop, both directions and rows of unequal length included; so each layer of a stack becomes one of these:

    values -> Transpose -> LSTM -> Transpose -> Reshape -> ... -> Where(step < lengths, ., 0) -> Transpose -> output

Connections are those of `connections.py`. What ONNX leaves open is settled here: outputs behind the end of a row are 0,
and a row without steps keeps its first state. The weights are the same numbers in another order:

LSTM    gates i, o, f, c and peepholes i, o, f; ours i, f, g, o and i, f, o. A coupled cell has no i, but
        1 - sigmoid(a) = sigmoid(-a): i is f with its sign changed.
GRU     gates z, r, h; ours r, z, n. ONNX's z is how much of the past stays. With reset="before" ours is how much
        is new, so its sign changes.

Operators: https://onnx.ai/onnx/operators.

>>> from harken.nn import LSTM
>>> export_onnx(LSTM(3, 5, num_layers=2, peephole="full"), "layer.onnx")
Traceback (most recent call last):
...
ValueError: ONNX's LSTM has no peephole='full'; export a fixed number of steps with torch.onnx.export(..., dynamo=True)
>>> gate_order(LSTMCell(3, 5, coupled=True))  # (our block of H rows, its sign) for ONNX's i, o, f, c
[(0, -1), (2, 1), (0, 1), (1, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from harken.errors import require_extra
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.stack import Stack

Order = list[tuple[int, int]]
OPSET, FORMAT = 17, 8  # what runtimes have read since 2022
SWAP: dict[str, Any] = {"perm": [1, 0, 2]}  # (B, T, D) <-> (T, B, D)


def export_onnx(layer: nn.Module, path: str | Path, *, lengths: bool = True, state: bool = False) -> Path:
    """Write an RNN, LSTM or GRU of `harken.nn` as it evaluates, in float32, to an ONNX file; the path comes back.

    Inputs are `values` (B, T, I), or (T, B, I) with `batch_first=False`; `lengths` (B,) int64, unless `lengths=False`;
    with `state=True` the first state `h_0` and, of an LSTM, `c_0`, each (layers x directions, B, H). Outputs are
    `output`, `h_n` and `c_n`, shaped as the layer's. B and T are free.

    Raises:
        ValueError: the layer has an option that ONNX's operator lacks.
        UserError: the package `onnx` is not installed.
    """
    stack = _exportable(layer)
    require_extra("onnx", "onnx", "export to ONNX")
    import onnx

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


class Graph:
    """The graph of one stack as it grows; tensors are known by their names. Time comes first inside."""

    def __init__(self, onnx: Any, stack: Stack, lengths: bool, state: bool) -> None:
        self.onnx, self.stack = onnx, stack
        self.parts = len(stack.cells_of(0)[0].state_sizes)  # h, and C
        self.lengths, self.state = lengths, state
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, outputs: int = 1, name: str = "", **attributes: Any) -> list[str]:
        """One node and what it makes, called `name` or by a name of its own."""
        made = [name] if name else [f"{operator}_{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(operator, list(inputs), made, **attributes))
        return made

    def constant(self, values: Any, dtype: torch.dtype = torch.float32) -> str:
        """A tensor, or what makes one."""
        tensor = torch.as_tensor(values, dtype=dtype).detach().cpu()
        self.constants.append(self.onnx.numpy_helper.from_array(tensor.numpy(), f"constant_{len(self.constants)}"))
        return str(self.constants[-1].name)

    def whole(self, *values: int) -> str:
        """Whole numbers, as shapes and axes are given."""
        return self.constant(values, torch.int64)

    def model(self) -> Any:
        """The model with everything in it."""
        batch_first, layers = self.stack.batch_first, self.stack.num_layers
        (values,) = self.add("Transpose", "values", **SWAP) if batch_first else ["values"]  # (T, B, I)
        begin = [self.add("Split", part, outputs=layers, axis=0) for part in self.first()]
        steps, empty = self.limits() if self.lengths else ("", "")
        below, last = [values], []
        for depth in range(layers):
            made, *states = self.layer(depth, self.into(below), [parts[depth] for parts in begin], steps, empty)
            below.append(self.out(depth, below, made))
            last.append(states)
        output = self.hide(values, below[-1]) if self.lengths else below[-1]
        self.add("Transpose" if batch_first else "Identity", output, name="output", **(SWAP if batch_first else {}))
        for name, parts in zip(self.last(), zip(*last, strict=True), strict=True):
            self.add("Concat", *parts, name=name, axis=0)
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, "harken", *self.interface(), self.constants)
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=FORMAT, producer_name="harken")

    def first(self) -> list[str]:
        """The names of the first state's parts."""
        return ["h_0", "c_0"][: self.parts] if self.state else []

    def last(self) -> list[str]:
        """The names of the last state's parts."""
        return ["h_n", "c_n"][: self.parts]

    def interface(self) -> tuple[list[Any], list[Any]]:
        """What goes in and what comes out, with free B and T."""
        stack, types = self.stack, self.onnx.TensorProto
        around: list[Any] = ["batch", "time"] if stack.batch_first else ["time", "batch"]
        state = [len(stack.cells), "batch", stack.hidden_size]
        inputs = [("values", types.FLOAT, [*around, stack.input_size])]
        inputs += [("lengths", types.INT64, ["batch"])] if self.lengths else []
        inputs += [(name, types.FLOAT, state) for name in self.first()]
        outputs = [("output", types.FLOAT, [*around, stack.directions * stack.hidden_size])]
        outputs += [(name, types.FLOAT, state) for name in self.last()]
        described = self.onnx.helper.make_tensor_value_info
        return [described(*one) for one in inputs], [described(*one) for one in outputs]

    def limits(self) -> tuple[str, str]:
        """How many steps each row goes (B,), and which rows have none (B, 1); these go one, and it is not looked at."""
        (steps,) = self.add("Max", "lengths", self.whole(1))
        (steps,) = self.add("Cast", steps, to=self.onnx.TensorProto.INT32)
        (column,) = self.add("Unsqueeze", "lengths", self.whole(1))
        return steps, self.add("Less", column, self.whole(1))[0]

    def layer(self, depth: int, values: str, begin: list[str], steps: str, empty: str) -> list[str]:
        """(T, B, I) -> (T, B, H x directions), and the parts of the last state (directions, B, H)."""
        cells = self.stack.cells_of(depth)
        weights = {name: self.constant(weight) for name, weight in operator_weights(cells).items()}
        inputs = [values, weights["W"], weights["R"], weights.get("B", ""), steps, *(begin or [""] * self.parts)]
        inputs += [weights["P"]] if "P" in weights else []
        operator, attributes = type(self.stack).__name__, operator_attributes(cells)
        made, *states = self.add(operator, *inputs, outputs=1 + self.parts, **attributes)  # (T, directions, B, H)
        (made,) = self.add("Transpose", made, perm=[0, 2, 1, 3])
        (made,) = self.add("Reshape", made, self.whole(0, 0, len(cells) * cells[0].hidden_size))
        if empty:
            before = begin or [self.constant(0.0)] * self.parts
            states = [self.add("Where", empty, *pair)[0] for pair in zip(before, states, strict=True)]
        return [made, *states]

    def into(self, below: list[str]) -> str:
        """What the next layer reads; see `Connections.into`."""
        dense = self.stack.connections.kind == "dense" and len(below) > self.stack.connections.first
        return self.add("Concat", *below, axis=2)[0] if dense else below[-1]

    def out(self, depth: int, below: list[str], made: str) -> str:
        """What goes on from a layer; see `Connections.out`."""
        connections = self.stack.connections
        if depth < connections.first or connections.kind in (None, "dense"):
            return made
        if connections.gates is None:
            return self.add("Add", below[-1], made)[0]
        gate = connections.gates[depth - connections.first]
        assert isinstance(gate, nn.Linear)
        (transform,) = self.add("MatMul", below[-1], self.constant(gate.weight.t()))
        (transform,) = self.add("Sigmoid", self.add("Add", transform, self.constant(gate.bias))[0])
        (change,) = self.add("Sub", made, below[-1])
        return self.add("Add", below[-1], self.add("Mul", transform, change)[0])[0]

    def hide(self, values: str, output: str) -> str:
        """0 behind the end of each row: (T, B, D) -> (T, B, D)."""
        (time,) = self.add("Gather", self.add("Shape", values)[0], self.constant(0, torch.int64))
        (place,) = self.add("Range", self.constant(0, torch.int64), time, self.constant(1, torch.int64))  # (T,)
        (place,) = self.add("Unsqueeze", place, self.whole(1, 2))
        (ends,) = self.add("Unsqueeze", "lengths", self.whole(1))  # (B, 1)
        (running,) = self.add("Less", place, ends)  # (T, B, 1)
        return self.add("Where", running, output, self.constant(0.0))[0]


def gate_order(cell: Cell) -> Order:
    """For each of ONNX's gates, which block of H rows of our weights it is, and with which sign."""
    if isinstance(cell, LSTMCell):
        return [(0, -1), (2, 1), (0, 1), (1, 1)] if cell.coupled else [(0, 1), (3, 1), (1, 1), (2, 1)]
    if isinstance(cell, GRUCell):
        return [(1, -1 if cell.reset == "before" else 1), (0, 1), (2, 1)]
    return [(0, 1)]


def peephole_order(cell: LSTMCell) -> Order:
    """The same for ONNX's peepholes i, o, f."""
    return [(0, -1), (1, 1), (0, 1)] if cell.coupled else [(0, 1), (2, 1), (1, 1)]


def lacking(cell: Cell) -> list[str]:
    """The options of a cell that ONNX's operator does not have."""
    found = ["layer_norm=True"] if cell.norm_ih is not None else []
    if isinstance(cell, LSTMCell):
        found += ["peephole='full'"] if cell.peephole == "full" else []
        found += [f"proj_size={cell.proj_size}"] if cell.proj_size else []
    return found


def operator_weights(cells: Sequence[Cell]) -> dict[str, Tensor]:
    """W, R, B and P of one layer, directions first, by the operator's names; B and P where there are any."""
    return {
        name: torch.stack([made[name] for made in map(_weights, cells)])
        for name in _weights(cells[0])  # directions have the same options
    }


def operator_attributes(cells: Sequence[Cell]) -> dict[str, Any]:
    """What else the operator has to know of one layer."""
    cell = cells[0]
    known: dict[str, Any] = {"hidden_size": cell.hidden_size}
    known["direction"] = "bidirectional" if len(cells) > 1 else "forward"
    if isinstance(cell, GRUCell):
        known["linear_before_reset"] = int(cell.reset == "after")
    if isinstance(cell, RNNCell):
        known["activations"] = [cell.nonlinearity.capitalize()] * len(cells)
    return known


def _weights(cell: Cell) -> dict[str, Tensor]:
    order, size = gate_order(cell), cell.hidden_size
    weights = {"W": _arranged(cell.weight_ih, size, order), "R": _arranged(cell.weight_hh, size, order)}
    if cell.bias_ih is not None:
        second = torch.zeros_like(cell.bias_ih) if cell.bias_hh is None else cell.bias_hh
        weights["B"] = torch.cat([_arranged(bias, size, order) for bias in (cell.bias_ih, second)])
    if isinstance(cell, LSTMCell) and cell.weight_ch is not None:
        weights["P"] = _arranged(cell.weight_ch, size, peephole_order(cell))
    return weights


def _arranged(weight: Tensor, size: int, order: Order) -> Tensor:
    """Blocks of H rows in another order, in float32: (gates x H, ...) -> (ONNX's gates x H, ...)."""
    blocks = weight.detach().float().split(size)
    return torch.cat([sign * blocks[block] for block, sign in order])
