"""Cells over time, in both directions, one layer above the other: the base of RNN, LSTM and GRU.

`reference` calls every cell step by step (`harken.nn.recurrent.unroll`). `forward` computes the same by the backend
that is fastest for the call. Both share the wiring of layers, directions, connections and lengths below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from harken.kernels.backend import choose
from harken.kernels.recurrent.call import Call, Direction, RecurrentBackend
from harken.kernels.recurrent.cudnn import flatten_for_cudnn
from harken.kernels.recurrent.packing import PaddedLayout, check_lengths, check_shape
from harken.kernels.settings import is_device_only
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.interop import accept_stored_names, split_name, weight_suffix
from harken.nn.recurrent.options import StackOptions, check_dtype, check_input, non_default
from harken.nn.recurrent.regularization import draw_noise
from harken.nn.recurrent.trace import DirectionTrace, Trace
from harken.nn.recurrent.unroll import backends, masked

MORE_OPTIONS: dict[str, Any] = {"zoneout": 0.0, "recurrent_dropout": 0.0, "connections": None}  # and their defaults


class Stack(nn.Module):
    """Layers of any `Cell`, in one direction or in both: what RNN, LSTM and GRU are made of.

    `make_cell(input_size)` gives a cell whose h is `output_size` wide; `Stack.of` makes a stack of a class of cells.
    Weights are the stack's parameters, under the names of `torch.nn`: `weight_ih_l0`, `bias_hh_l1_reverse` and so on.

    >>> from harken.nn import GRUCell
    >>> stack = Stack.of(GRUCell, 3, 5, num_layers=2, reset="before")
    >>> stack
    Stack(GRUCell, 3, 5, num_layers=2, reset='before')
    >>> stack(torch.randn(7, 2, 3))[0].shape, [name for name, _ in stack.named_parameters()][:2]
    (torch.Size([7, 2, 5]), ['weight_ih_l0', 'weight_hh_l0'])
    """

    def __init__(self, options: StackOptions, output_size: int, make_cell: Callable[[int], Cell]) -> None:
        super().__init__()
        self.options, self.directions = options, options.directions
        self.input_size, self.hidden_size, self.num_layers = options.input_size, options.hidden_size, options.num_layers
        self.batch_first, self.bidirectional = options.batch_first, options.bidirectional
        self.bias, self.dropout = options.bias, options.dropout
        width = self.directions * output_size
        self.connections = Connections(options.connections, options.input_size, width, options.num_layers)
        sizes = self.connections.input_sizes
        self.cells = nn.ModuleList(make_cell(size) for size in sizes for _ in range(self.directions))
        self.between = nn.Dropout(options.dropout)  # torch's, so that the same seed drops the same values
        self._weight_names: dict[str, None] = {}  # a set in the order of the cells
        for number, cell in enumerate(self.cells):
            assert isinstance(cell, Cell), f"a stack is made of cells, and {type(cell).__name__} is no harken.nn.Cell"
            suffix = weight_suffix(number, self.directions)
            for name, weight in cell.release_weights().items():
                self.register_parameter(name + suffix, weight)
                self._weight_names[name + suffix] = None
            cell.bind(self._parameters, suffix)
        self.register_load_state_dict_pre_hook(accept_stored_names)  # type: ignore[no-untyped-call]

    @classmethod
    def of(
        cls,
        cell: Callable[..., Cell],
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        **cell_options: Any,
    ) -> Stack:
        """A stack of cells `cell(input_size, hidden_size, **cell_options)`; the arguments of `harken.nn.LSTM`.

        No fused kernel knows a cell of your own: it is called step by step.
        """
        options = StackOptions(
            input_size, hidden_size, num_layers, cell_options.get("bias", True), batch_first, dropout, bidirectional,
            False, zoneout, recurrent_dropout, connections,
        )  # fmt: skip
        with torch.device("meta"):  # without weights, so that nothing is drawn
            output_size = cell(1, hidden_size, **cell_options).output_size
        return Stack(options, output_size, lambda size: cell(size, hidden_size, **cell_options))

    def forward(
        self, input: Any, hx: Any = None, lengths: Tensor | None = None, trace: bool = False
    ) -> tuple[Any, ...]:
        """(T, B, I) -> (T, B, H x directions) and the state after each row's last real step, in torch's shapes.

        Args:
            input: (T, B, I); (B, T, I) with `batch_first=True`; (T, I) for one sequence; or a PackedSequence.
            hx: h, or (h, c) of an LSTM, each (layers x directions, B, H); zeros by default.
            lengths: (B,) steps of each row, in any order, on any device; what lies behind them changes nothing.
            trace: also return a `Trace` with all gates and states.

        Raises:
            ValueError: shapes that do not fit the layer, with those that do.
        """
        if isinstance(input, PackedSequence):
            padded, lengths = pad_packed_sequence(input, self.batch_first)
            output, *rest = self.forward(padded, hx, lengths, trace)
            return pack_padded_sequence(output, lengths, self.batch_first, input.sorted_indices is None), *rest
        cells = self._bind()
        x, state = self._batched(input, hx, cells[0])
        call = self._call(x, lengths, trace, cells)
        traces: list[list[DirectionTrace]] = []
        if x.shape[0] == 0:
            output, last = self._empty(x)
        else:
            output, last, traces = self._run(choose(backends(cells), call), call, state, cells)
        output, after = self._unbatched(input, output, last)
        return (output, after, Trace(traces)) if trace else (output, after)

    def reference(self, input: Tensor, hx: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """Compute what `forward` does cell by cell and step by step; the same layout of input and output."""
        cells = self._bind()
        x, state = self._batched(input, hx, cells[0])
        output, last, _ = self._run(masked(cells), self._call(x, lengths, False, cells), state, cells)
        return self._unbatched(input, output, last)

    def backend(self, input: Tensor, lengths: Tensor | None = None, trace: bool = False) -> str:
        """The name of the backend that `forward` uses for this call."""
        cells = self._bind()
        call = self._call(self._batched(input, None, cells[0])[0], lengths, trace, cells)
        return choose(backends(cells), call).name

    def _bind(self) -> list[Cell]:
        """All cells. They read the stack's parameters; where something else has replaced them (a parametrization, such
        as weight norm, or a copy that shares the cells), what is there now."""
        weights: Any = self._parameters
        if not weights.keys() >= self._weight_names.keys():
            weights = {name: getattr(self, name) for name in self._weight_names}
        cells = self.cells_of_all()
        for number, cell in enumerate(cells):
            if cell._bound is not weights:
                cell.bind(weights, weight_suffix(number, self.directions))
        return cells

    def stored_names(self) -> dict[str, str]:
        """Names of parameters in model files of earlier versions -> those of today."""
        current = {}
        for name in self._weight_names:
            base, depth, reverse = split_name(name)
            current[f"cells.{depth * self.directions + reverse}.{base}"] = current[f"inner.{name}"] = name
        return current

    def _run(
        self, backend: RecurrentBackend, call: Call, state: State | None, cells: list[Cell]
    ) -> tuple[Tensor, State, list[list[DirectionTrace]]]:
        """All layers, one above the other: x (B, T, I) -> (B, T, H x directions), last states, traces."""
        takes_padded = backend.takes_padded or (backend.takes_equal and call.lengths is None)
        x, layout = call.x, self._padded_layout(call) if takes_padded else call.layout
        if isinstance(layout, PaddedLayout):  # what lies behind the end of a row must reach no gradient
            call.lengths = layout.lengths
            if layout.lengths is not None:
                call.has_padding = backend.masks_padding and call.connections is None
                x = x if call.has_padding else layout.hide_padding(x)
        below = [layout.pack(x)]  # what each layer reads: (N, I) packed, or (T, B, I)
        at_once = self.num_layers if backend.runs_stack and call.connections is None else 1
        connections, directions = self.connections, self.directions
        states: list[State] = []
        traces: list[list[DirectionTrace]] = []
        for depth in range(0, self.num_layers, at_once):
            read = connections.into(below)
            read = self.between(read) if depth else read
            numbers = range(depth * directions, (depth + at_once) * directions)
            call.x, call.directions = read, [self._direction(at, cells[at], state, layout, read) for at in numbers]
            output, last, trace = backend.run(call)
            below.append(connections.out(depth, below, output))
            states.append(layout.unsort(last))
            traces.append(trace)
            call.has_padding = False  # the outputs of a layer are 0 there
        last = states[0] if len(states) == 1 else tuple(torch.cat(parts) for parts in zip(*states, strict=True))
        return layout.unpack(below[-1]), last, traces

    def _call(self, x: Tensor, lengths: Tensor | None, trace: bool, cells: list[Cell]) -> Call:
        return Call(
            x,
            cells[0].weight_hh,
            cells[0].state_sizes,
            self.bidirectional,
            lengths,
            kind=cells[0].kind if all(cell.is_plain for cell in cells) else None,
            training=self.training,
            trace=trace,
            noisy=bool(self.options.zoneout or self.options.recurrent_dropout),
            connections=self.options.connections,
            dropout=self.dropout if self.num_layers > 1 else 0.0,
        )

    def _padded_layout(self, call: Call) -> PaddedLayout:
        batch, time, _ = call.x.shape
        lengths = call.lengths
        if lengths is not None and (
            torch.compiler.is_compiling() or is_device_only()
        ):  # a graph cannot raise: kernels stay inside T anyway
            check_shape(lengths, batch)
            lengths = lengths.to(call.x.device, torch.int32).clamp(0, time)
        elif lengths is not None:
            check_lengths(lengths, batch, time)
            lengths = lengths.to(torch.int32).to(call.x.device, non_blocking=True)
        return PaddedLayout(lengths, batch, time)

    def _direction(self, number: int, cell: Cell, state: State | None, layout: Any, like: Tensor) -> Direction:
        """The direction of a cell, with its first state and the noise it draws."""
        rates = self.options.recurrent_dropout, self.options.zoneout, self.training
        noise = draw_noise(*rates, layout.time, layout.batch, cell.state_sizes, like).sorted(layout.sorted_indices)
        first = None if state is None else layout.sort(tuple(part[number] for part in state))
        return Direction(number, cell.tensors(), first, noise, reverse=number % self.directions == 1)

    def cells_of_all(self) -> list[Cell]:
        """All cells, layer by layer."""
        return list(self.cells._modules.values())  # type: ignore[arg-type]

    def cells_of(self, depth: int) -> list[Cell]:
        """The cells of one layer, the forward direction first."""
        return self.cells_of_all()[depth * self.directions : (depth + 1) * self.directions]

    def _batched(self, input: Tensor, hx: Any, cell: Cell) -> tuple[Tensor, State | None]:
        """x (B, T, I), and the parts of the state (layers x directions, B, H)."""
        check_input(input, self.input_size, cell.weight_ih)
        single = input.dim() == 2
        x = input[None] if single else input if self.batch_first else input.transpose(0, 1)
        if x.shape[1] == 0:
            raise ValueError("the input has no step: a sequence needs at least one")
        if hx is None:
            return x, None
        parts = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        parts = tuple(part[:, None] for part in parts) if single else parts
        expected = [(len(self.cells), x.shape[0], size) for size in cell.state_sizes]
        shapes = [tuple(part.shape) for part in parts]
        if shapes != expected:
            raise ValueError(f"the state has shapes {shapes}, but this layer and input need {expected}")
        for part in parts:
            check_dtype(part, cell.weight_hh, "state")
        return x, parts

    def _unbatched(self, input: Tensor, output: Tensor, last: State) -> tuple[Tensor, Any]:
        """Output and state in the layout of the input."""
        if input.dim() == 2:
            output, last = output[0], tuple(part[:, 0] for part in last)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        return output, last if len(last) > 1 else last[0]

    def _empty(self, x: Tensor) -> tuple[Tensor, State]:
        """No rows: outputs and states without rows, whose gradients are zeros, as torch's are."""
        cell = self.cells_of(0)[0]
        root = x.sum() + sum(weight.sum().to(x) for weight in self.parameters())
        states = tuple(x.new_zeros(len(self.cells), 0, size) + root for size in cell.state_sizes)
        return x.new_zeros(0, x.shape[1], self.directions * cell.output_size) + root, states

    def extra_repr(self) -> str:
        """The options as torch prints them, then those that torch lacks."""
        cell, options = self.cells_of(0)[0], self.options
        of_cell = cell.option_values()
        values = {
            "proj_size": of_cell.pop("proj_size"),
            "num_layers": (self.num_layers, 1),
            "bias": of_cell.pop("bias"),
            "batch_first": (self.batch_first, False),
            "dropout": (self.dropout, 0),
            "bidirectional": (self.bidirectional, False),
            **of_cell,
            **{name: (getattr(options, name), default) for name, default in MORE_OPTIONS.items()},
        }
        class_name = [] if hasattr(type(self), "peer") else [type(cell).__name__]
        return ", ".join([*class_name, str(self.input_size), str(self.hidden_size), *non_default(values)])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """After a move to a GPU, the weights lie in memory as cuDNN needs them."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.flatten_parameters()
        return self

    def flatten_parameters(self) -> None:
        """Lay the weights out in memory as cuDNN needs them; nothing without a GPU. A move to a GPU does it already."""
        cell = self.cells_of(0)[0]
        if not all(name in self._parameters for name in self._weight_names) or cell.kind.torch_name is None:
            return
        if cell.weight_ih.is_cuda:
            depths = range(self.num_layers)
            whole = self.options.connections is None
            for cells in [self.cells_of_all()] if whole else [self.cells_of(depth) for depth in depths]:
                flatten_for_cudnn([each.tensors() for each in cells], cell.kind, self.bidirectional)
