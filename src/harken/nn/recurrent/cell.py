"""The base of all recurrent cells: the weights, and one step as a function of them.

A cell computes one step from its input x (B, I) and its state (h, and c of an LSTM):

    step(x, state)                   W x + b, U h, the gates and the new state, in one function per cell
    step(wx, state, products)        the same in a loop that has W x + b of all steps already (`Cell.project_input`)

Weights have torch's names and shapes: `weight_ih` W (gates x H, I) and `weight_hh` U (gates x H, R), where R is the
width of h. Layer normalisation (Ba et al., 2016) normalises W x and U h, each gate separately; the cell's biases are
its shifts.

A cell on its own has its weights as parameters. In a stack they are the stack's parameters, `weight_ih_l0` and so on as
in `torch.nn`, and the cell reads them from there (`Cell.bind`).

An own cell is a subclass with `weights` and `step`; `Stack.of` makes a layer of it:

>>> from harken.nn import Stack
>>> class Leaky(Cell):
...     def __init__(self, input_size, hidden_size):
...         super().__init__("leaky", input_size, hidden_size, gates=1)
...         self.draw()
...
...     def weights(self):
...         return self.weight_ih, self.weight_hh, self.summed_bias()
...
...     def step(self, x, state, products=None, keep=None):
...         linear = products or Products(self)
...         W, U, b = linear.weights
...         (h,) = state
...         return Step((0.9 * h + 0.1 * torch.tanh(linear(x, W, b) + linear(h, U)),), {})
>>> output, last = Stack.of(Leaky, 3, 5, bidirectional=True)(torch.randn(7, 2, 3), lengths=torch.tensor([7, 4]))
>>> output.shape, last.shape
(torch.Size([7, 2, 10]), torch.Size([2, 2, 5]))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import _VF, Tensor, nn

from harken.kernels.autograd import takes_torch_steps
from harken.kernels.backend import Backend, choose, reference
from harken.kernels.recurrent.call import PARAMETERS, CellKind
from harken.kernels.recurrent.deferred import DeferredLinear
from harken.nn.recurrent.options import Bias, at_least, check_dtype, non_default, one_of

State = tuple[Tensor, ...]  # (h,) or (h, c): h (B, R), c (B, H)
TORCH_CELLS: dict[str, Any] = {
    "LSTM": _VF.lstm_cell,
    "GRU": _VF.gru_cell,
    "RNN_TANH": _VF.rnn_tanh_cell,
    "RNN_RELU": _VF.rnn_relu_cell,
}


class Step(NamedTuple):
    """The result of one step: the new state, and the gates by name, each (B, H)."""

    state: State
    gates: dict[str, Tensor]


class GateNorm(nn.Module):
    """Layer normalisation of each gate separately: mean 0 and variance 1 over its units, then one gain per unit."""

    def __init__(self, gates: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight = nn.Parameter(torch.ones(gates * hidden_size))

    def forward(self, values: Tensor, rows: slice = slice(None)) -> Tensor:
        """(..., gates x H) -> the same shape; `rows` selects the gains where `values` has some of the gates."""
        by_gate = values.unflatten(-1, (-1, self.hidden_size))
        return F.layer_norm(by_gate, (self.hidden_size,)).flatten(-2) * self.weight[rows]


class Products:
    """Products with a cell's weights during one pass: `linear(x, W, b)` is W x + b, `linear(x, W, b, norm)` is
    norm(W x) + b.

    Args:
        cell: whose weights; `weights` is what its `step` unpacks.
        projected: the loop's inputs are W x + b already, so `linear(wx, W, b, norm)` returns them as they are.
        deferred: the weight gradients of all steps are computed at once (`harken.kernels.recurrent.deferred`).
    """

    def __init__(self, cell: Cell, projected: bool = False, deferred: bool = False) -> None:
        self.weights = cell.weights()
        self.projected = self.weights[0] if projected else None
        recurrent = self.weights[1:] if deferred else ()
        matrices = [weight for weight in recurrent if weight is not None and weight.dim() == 2]
        self.deferred = [(weight, DeferredLinear(weight)) for weight in matrices]  # torch 2.11 cannot trace id()

    def __call__(
        self, values: Tensor, weight: Tensor, bias: Tensor | None = None, norm: GateNorm | None = None
    ) -> Tensor:
        """(..., I) -> (..., O)."""
        if weight is self.projected:
            return values
        for matrix, deferred in self.deferred:
            if weight is matrix:
                product = deferred(values)  # of U, which has no bias
                break
        else:
            if norm is None:
                return F.linear(values, weight, bias)
            product = F.linear(values, weight)
        if norm is not None:
            product = norm(product)
        return product if bias is None else product + bias


class Cell(nn.Module):
    """The weights of a cell; a subclass adds the equations in `step`.

    Args:
        kind: a name, or what the fused kernels know of the cell.
        input_size, hidden_size: I and H.
        gates: how many blocks of H rows W and U have.
        output_size: R, the width of h; H by default.
        bias: True or "two" as torch has it, "one" as the equations have it, False or "none".
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    weight_hr: Tensor | None  # of a projection
    __jit_unused_properties__: ClassVar[list[str]] = []
    has_kernels: ClassVar[bool] = False  # of this very class; a subclass may compute something else
    _bound: Mapping[str, Any] | None = None  # of a stack
    _names: Mapping[str, str]  # of the weights in `_bound`: "weight_ih" is "weight_ih_l0"

    def __init__(
        self,
        kind: CellKind | str,
        input_size: int,
        hidden_size: int,
        gates: int,
        output_size: int | None = None,
        bias: Bias = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        at_least("input_size", input_size, 1)
        at_least("hidden_size", hidden_size, 1)
        one_of("bias", bias, (True, False, "two", "one", "none"))
        self.kind = CellKind(kind) if isinstance(kind, str) else kind
        self.input_size, self.hidden_size, self.gates = input_size, hidden_size, gates
        self.output_size = hidden_size if output_size is None else output_size
        self.bias = bias
        rows = gates * hidden_size
        self.factory: dict[str, Any] = {"device": device, "dtype": dtype}
        self.add_weight("weight_ih", rows, input_size)
        self.add_weight("weight_hh", rows, self.output_size)
        self.add_weight("bias_ih", *([rows] if bias in (True, "two", "one") else []))
        self.add_weight("bias_hh", *([rows] if bias in (True, "two") else []))
        self.norm_ih = GateNorm(gates, hidden_size).to(**self.factory) if self.kind.layer_norm else None
        self.norm_hh = GateNorm(gates, hidden_size).to(**self.factory) if self.kind.layer_norm else None

    def __init_subclass__(cls, has_kernels: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.has_kernels = has_kernels
        # torch.jit.trace compiles all other properties
        cls.__jit_unused_properties__ = [name for name in dir(cls) if isinstance(getattr(cls, name), property)]

    def __getattr__(self, name: str) -> Any:
        """A weight that is not the cell's own is that of the stack that it is bound to."""
        if self._bound is not None:
            bound = self._names.get(name, "")
            if bound in self._bound:
                return self._bound[bound]
        return super().__getattr__(name)

    def add_weight(self, name: str, *shape: int) -> None:
        """A parameter that `draw` fills; None without a shape."""
        self.register_parameter(name, nn.Parameter(torch.empty(shape, **self.factory)) if shape else None)

    def release_weights(self) -> dict[str, nn.Parameter]:
        """Give those of `PARAMETERS` that the cell has to its stack, which then calls `bind`."""
        return {name: self._parameters.pop(name) for name in PARAMETERS if self._parameters.get(name) is not None}  # type: ignore[misc]

    def bind(self, weights: Mapping[str, Any], suffix: str) -> None:
        """Read the weights from `weights`, where `weight_ih` is called `weight_ih` + suffix."""
        self._bound, self._names = weights, {name: name + suffix for name in PARAMETERS}

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """All weights by name, also where they are parameters of a stack."""
        for name in PARAMETERS:
            weight = getattr(self, name, None)
            if weight is not None:
                yield name, weight
        yield from ((name, weight) for name, weight in self.named_parameters() if name not in PARAMETERS)

    def draw(self) -> None:
        """Torch's initial weights: uniform within 1 / sqrt(H)."""
        for name, parameter in self.named_weights():
            if "norm" not in name:
                nn.init.uniform_(parameter, -1 / math.sqrt(self.hidden_size), 1 / math.sqrt(self.hidden_size))

    def reset_parameters(self) -> None:
        """Draw all weights anew, as torch's cells do."""
        self.draw()

    @property
    def is_plain(self) -> bool:
        """Whether a kernel may compute the steps: the cell is exactly one of this package's classes (a subclass,
        or one with parametrizations, is not), nobody replaced its step, and no hook waits for a call."""
        if not self.has_kernels or "step" in self.__dict__ or "forward" in self.__dict__:
            return False
        for part in (self, *self._modules.values()):
            if part is None:
                continue
            if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks:
                return False
        return True

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of the state."""
        return (self.output_size,)

    def summed_bias(self) -> Tensor | None:
        """b (gates x H): torch's two biases act as their sum."""
        return self.bias_ih if self.bias_hh is None or self.bias_ih is None else self.bias_ih + self.bias_hh

    def weights(self) -> Any:
        """A named tuple of the weights as `step` uses them; W is the first."""
        raise NotImplementedError

    def project_input(self, x: Tensor) -> Tensor:
        """W x + b for any number of steps, W x normalised where the cell does so: (..., I) -> (..., gates x H)."""
        return Products(self)(x, self.weight_ih, self.summed_bias(), self.norm_ih)

    def products(self, deferred: bool = False) -> Products:
        """The products of a loop whose inputs went through `project_input`."""
        return Products(self, projected=True, deferred=deferred)

    def tensors(self) -> dict[str, Tensor | None]:
        """The weights of a cell that is bound to a stack, for `harken.kernels.recurrent.call.Direction`."""
        assert self._bound is not None
        named: dict[str, Tensor | None] = {name: self._bound.get(bound) for name, bound in self._names.items()}
        if self.norm_ih is not None and self.norm_hh is not None:
            named |= {"norm_input": self.norm_ih.weight, "norm_hidden": self.norm_hh.weight}
        return named

    def step(self, x: Tensor, state: State, products: Products | None = None, keep: Tensor | None = None) -> Step:
        """One step.

        Args:
            x: the input (B, I); with `products`, W x + b (B, gates x H).
            state: h (B, R), and c (B, H) of an LSTM.
            products: how to multiply by the weights in a loop.
            keep: the mask of recurrent dropout on h, (B, R).
        """
        raise NotImplementedError

    def start(self, x: Tensor) -> State:
        """The state before the first step, zeros, for inputs (B, I)."""
        return tuple(x.new_zeros(x.shape[0], size) for size in self.state_sizes)

    def _in_torch_shapes(self, input: Tensor, hx: State | None) -> State:
        """The step of a cell on its own: input (B, I) or (I,) and the state with or without B -> the new state."""
        if input.dim() not in (1, 2):
            raise ValueError(
                f"{type(self).__name__} takes an input (B, I) or (I,), but its shape is {tuple(input.shape)}"
            )
        check_dtype(input, self.weight_ih)
        single = input.dim() == 1
        x = input[None] if single else input
        state = self.start(x) if hx is None else tuple(part[None] for part in hx) if single else hx
        sizes = [(x.shape[0], size) for size in self.state_sizes]
        if x.shape[-1] != self.input_size or [tuple(part.shape) for part in state] != sizes:
            raise ValueError(
                f"{type(self).__name__} was made for {self.input_size} features and a state of shapes {sizes}; the "
                f"input has {x.shape[-1]} and the state {[tuple(part.shape) for part in state]}"
            )
        for part in state:
            check_dtype(part, self.weight_hh, "state")
        new = choose(CELL_BACKENDS, self).run(self, x, state)
        return tuple(part[0] for part in new) if single else new

    def option_values(self) -> dict[str, tuple[Any, Any]]:
        """Each option of the cell with its value and torch's default."""
        kind, bias = self.kind, {"two": True, "none": False}.get(str(self.bias), self.bias)
        return {
            "bias": (bias, True),
            "nonlinearity": (kind.nonlinearity, "tanh"),
            "peephole": (kind.peephole, None),
            "coupled": (kind.coupled, False),
            "proj_size": (self.output_size if self.output_size != self.hidden_size else 0, 0),
            "reset": (kind.reset, "after"),
            "layer_norm": (kind.layer_norm, False),
        }

    def extra_repr(self) -> str:
        """The sizes and every option that is not torch's default."""
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *non_default(self.option_values())])


def _why_not_torch(cell: Cell) -> str | None:
    if not cell.is_plain or takes_torch_steps():  # `torch.func.vmap` knows none of torch's cells
        return "the step is not that of a class of harken, or torch.compile or torch.func records it"
    if cell.kind.torch_name is None or cell.output_size != cell.hidden_size:
        return "torch has no such cell"
    return None if (cell.bias_ih is None) == (cell.bias_hh is None) else "torch's cells have two biases or none"


def _run_torch(cell: Cell, x: Tensor, state: State) -> State:
    name = str(cell.kind.torch_name)
    hx = state if name == "LSTM" else state[0]
    new = TORCH_CELLS[name](x, hx, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    return new if isinstance(new, tuple) else (new,)


# Of a cell that is called on its own: torch's own function, or the equation.
CELL_BACKENDS = (
    Backend("torch", _why_not_torch, _run_torch, is_kernel=False),
    reference("step", lambda cell, x, state: cell.step(x, state).state),
)
