"""An ONNX graph as it grows: tensors are known by their names, and a weight that is used twice is stored once.

Operators: https://onnx.ai/onnx/operators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harken.errors import require_extra
from harken.kernels.decoding.description import Linear, Norm

OPSET, FORMAT = 17, 8  # what runtimes have read since 2022
LARGEST = 1_500_000_000  # bytes of weights inside the file; protobuf ends at 2 GiB
LOWEST = float(torch.finfo(torch.float32).min)  # added to scores that are masked
TYPES = {torch.float32: "FLOAT", torch.int64: "INT64"}


def import_onnx() -> Any:
    """The package `onnx`.

    Raises:
        UserError: it is not installed.
    """
    require_extra("onnx", "onnx", "export to ONNX")
    import onnx

    return onnx


@dataclass(frozen=True)
class Memory:
    """The names of the sources as a decoder sees them; see `harken.models.base.Memory`."""

    values: str  # (B, S, W)
    inside: str  # (B, S), True where there is a word
    states: list[tuple[str, ...]] | None = None  # recurrent encoders: the last state of each layer, parts (B, W)


@dataclass(frozen=True)
class Step:
    """The names of what a decoder step gives."""

    hidden: str  # (B, O)
    state: dict[str, str]  # name -> its value after the step


class Graph:
    """Nodes, weights, inputs and outputs; methods add a node and give the name of its output."""

    def __init__(self) -> None:
        self.onnx = import_onnx()
        self._nodes: list[Any] = []
        self._constants: dict[Any, Any] = {}
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """A node with one output."""
        return self.add_many(operator, *inputs, outputs=1, **attributes)[0]

    def add_many(self, operator: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """A node with several outputs."""
        names = [f"{operator}_{len(self._nodes)}_{number}" for number in range(outputs)]
        self._nodes.append(self.onnx.helper.make_node(operator, list(inputs), names, **attributes))
        return names

    def input(self, name: str, shape: Sequence[Any], dtype: torch.dtype = torch.float32) -> str:
        """An input; sizes that are free have names."""
        self._inputs.append(self._described(name, shape, dtype))
        return name

    def output(self, name: str, value: str, shape: Sequence[Any], dtype: torch.dtype = torch.float32) -> None:
        """An output under a name of its own."""
        self._nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._described(name, shape, dtype))

    def constant(self, values: Any, dtype: torch.dtype = torch.float32) -> str:
        """A tensor, or what makes one."""
        tensor = torch.as_tensor(values).detach().to("cpu", dtype)
        key = (
            (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
            if isinstance(values, Tensor)
            else len(self._constants)
        )
        if key not in self._constants:
            name = f"constant_{len(self._constants)}"
            stored = self.onnx.numpy_helper.from_array(tensor.contiguous().numpy(), name)
            self._constants[key] = (stored, tensor)  # the tensor is kept, so that no other gets its address
        return str(self._constants[key][0].name)

    def ints(self, *values: int) -> str:
        """Whole numbers, as shapes and axes are given."""
        return self.constant(values, torch.int64)

    def size(self, value: str, axis: int) -> str:
        """One size of a tensor, (1,)."""
        return self.add("Shape", value, start=axis, end=axis + 1)

    def reshape(self, value: str, *shape: int | str) -> str:
        """0 keeps a size, -1 is what is left, a name is a size from `size`."""
        if all(isinstance(size, int) for size in shape):
            return self.add("Reshape", value, self.constant(shape, torch.int64))
        parts = [self.ints(size) if isinstance(size, int) else size for size in shape]
        return self.add("Reshape", value, self.add("Concat", *parts, axis=0))

    def linear(self, value: str, layer: Linear) -> str:
        """(..., K) -> W x + b (..., O)."""
        product = self.add("MatMul", value, self.constant(layer.weight.t()))
        return product if layer.bias is None else self.add("Add", product, self.constant(layer.bias))

    def norm(self, value: str, layer: Norm) -> str:
        """Layer normalisation of the last axis, or RMS norm, which operators have from 2024 on."""
        weight = self.constant(layer.weight)
        if layer.bias is None:
            square = self.add("ReduceMean", self.add("Mul", value, value), axes=[-1])
            root = self.add("Sqrt", self.add("Add", square, self.constant(layer.epsilon)))
            return self.add("Mul", self.add("Div", value, root), weight)
        bias = self.constant(layer.bias)
        return self.add("LayerNormalization", value, weight, bias, axis=-1, epsilon=layer.epsilon)

    def embed(self, ids: str, table: Tensor, scale: float) -> str:
        """Rows of an embedding times `scale`."""
        return self.add("Mul", self.add("Gather", self.constant(table), ids), self.constant(scale))

    def split(self, value: str, parts: int, width: int) -> list[str]:
        """(..., parts x width) -> (..., width) each."""
        return self.add_many("Split", value, self.ints(*[width] * parts), outputs=parts, axis=-1)

    def rows(self, table: Tensor, begin: str, end: str) -> str:
        """Some rows of a table; both ends are (1,)."""
        return self.add("Slice", self.constant(table), begin, end, self.ints(0))

    def range(self, start: str, end: str) -> str:
        """start, start + 1 ... up to `end`; both (1,)."""
        first, last = (self.add("Squeeze", bound, self.ints(0)) for bound in (start, end))
        return self.add("Range", first, last, self.constant(1, torch.int64))

    def inside(self, lengths: str, size: str) -> str:
        """(B,) and S (1,) -> (B, S), True before the end of each row."""
        return self.add("Less", self.range(self.ints(0), size), self.add("Unsqueeze", lengths, self.ints(1)))

    def added_mask(self, inside: str, *axes: int) -> str:
        """(B, S) -> 0 where True and lowest elsewhere, with further axes."""
        mask = self.add("Where", inside, self.constant(0.0), self.constant(LOWEST))
        return self.add("Unsqueeze", mask, self.ints(*axes)) if axes else mask

    def gelu(self, value: str) -> str:
        """x P(X <= x) for a standard normal X."""
        erf = self.add("Erf", self.add("Mul", value, self.constant(math.sqrt(0.5))))
        half = self.add("Mul", value, self.constant(0.5))
        return self.add("Mul", half, self.add("Add", erf, self.constant(1.0)))

    def gelu_tanh(self, value: str) -> str:
        """Its approximation x sigmoid(sqrt(8 / pi) (x + 0.044715 x^3))."""
        cube = self.add("Mul", self.add("Mul", value, value), value)
        inner = self.add("Add", value, self.add("Mul", cube, self.constant(0.044715)))
        return self.add(
            "Mul", value, self.add("Sigmoid", self.add("Mul", inner, self.constant(math.sqrt(8 / math.pi))))
        )

    def silu(self, value: str) -> str:
        """x sigmoid(x)."""
        return self.add("Mul", value, self.add("Sigmoid", value))

    def save(self, path: Path, **metadata: str) -> None:
        """Check and write it; large weights go to a file beside it."""
        helper, constants = self.onnx.helper, [stored for stored, _ in self._constants.values()]
        graph = helper.make_graph(self._nodes, "harken", self._inputs, self._outputs, constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=FORMAT, producer_name="harken")
        helper.set_model_props(model, metadata)
        apart = sum(len(constant.raw_data) for constant in constants) > LARGEST
        options = {"save_as_external_data": True, "location": f"{path.name}.data"} if apart else {}
        self.onnx.save(model, str(path), **options)
        self.onnx.checker.check_model(str(path), full_check=True)

    def _described(self, name: str, shape: Sequence[Any], dtype: torch.dtype) -> Any:
        kind = getattr(self.onnx.TensorProto, TYPES[dtype])
        return self.onnx.helper.make_tensor_value_info(name, kind, list(shape))
