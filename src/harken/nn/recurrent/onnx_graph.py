"""The ONNX graph of a stack of recurrent layers, node by node.

    values -> Transpose -> LSTM -> Transpose -> Reshape -> ... -> Where(step < lengths, ., 0) -> Transpose -> output

Each layer is one RNN, LSTM or GRU of ONNX, connections are what `connections.py` says. What ONNX leaves open is
settled here: outputs behind the end of a row are 0, and a row without steps keeps its first state.
`harken.nn.recurrent.onnx.export_onnx` writes it to a file.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from harken.nn.recurrent.onnx_weights import operator_attributes, operator_weights
from harken.nn.recurrent.stack import Stack

OPSET, FORMAT = 17, 8  # what runtimes have read since 2022
SWAP: dict[str, Any] = {"perm": [1, 0, 2]}  # (B, T, D) <-> (T, B, D)


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
