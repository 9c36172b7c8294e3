"""Cells over time, in both directions, one layer above the other: what RNN, LSTM and GRU share.

`definition` says what is computed: every cell, step by step. `forward` computes the same the quickest way there is for
a call (`Stack.choose_path`): a kernel of ours, torch's own fused loop, or `harken.nn.recurrent.unroll`. Both share the
wiring.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from harken.kernels.recurrent.cudnn import flatten_for_cudnn, run_layer
from harken.kernels.recurrent.dispatch import is_chosen
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.cpu_backend import pays, run_quick
from harken.nn.recurrent.gpu_backend import compute_dtype, kind_of, lengths_for_gpu, run_on_gpu
from harken.nn.recurrent.interop import accept_torch_names, torch_weights
from harken.nn.recurrent.options import StackOptions, check_values
from harken.nn.recurrent.packing import Layout, check_lengths, check_shape
from harken.nn.recurrent.regularization import Noise, draw_noise
from harken.nn.recurrent.trace import DirectionTrace, Trace
from harken.nn.recurrent.unroll import unroll, unroll_by_definition

Layer = tuple[Tensor, list[State], list[DirectionTrace]]  # output, last state and trace of each direction


class Stack(nn.Module):
    """`make_cell(input_size)` gives a cell whose h is `output_size` wide; `fused` names torch's loop for it, if any."""

    def __init__(
        self, options: StackOptions, output_size: int, make_cell: Callable[[int], Cell], fused: str | None
    ) -> None:
        super().__init__()
        self.options, self.directions = options, options.directions
        self.input_size, self.hidden_size, self.num_layers = options.input_size, options.hidden_size, options.num_layers
        self.batch_first, self.bidirectional = options.batch_first, options.bidirectional
        self.bias, self.dropout = options.bias, options.dropout
        self.fused = fused if options.extras() in ([], [f"connections={options.connections!r}"]) else None
        width = self.directions * output_size
        self.connections = Connections(options.connections, options.input_size, width, options.num_layers)
        sizes = self.connections.input_sizes
        self.cells = nn.ModuleList(make_cell(size) for size in sizes for _ in range(self.directions))
        self.between = Dropout(options.dropout)
        self.register_load_state_dict_pre_hook(accept_torch_names)

    def forward(
        self, values: Any, state: Any = None, lengths: Tensor | None = None, trace: bool = False
    ) -> tuple[Any, ...]:
        """(B, T, I) -> (B, T, H x directions) and the state after each row's last real step, in torch's shapes.

        Args:
            values: (B, T, I); (T, B, I) with `batch_first=False`; (T, I) for one sequence; or a PackedSequence.
            state: h, or (h, C) of an LSTM, each (layers x directions, B, H); zeros where it is not given.
            lengths: (B,) steps of each row, in any order, on any device; what lies behind them changes nothing.
            trace: also return a `Trace` with all gates and states.

        Raises:
            ValueError: shapes that do not fit the layer, with what would.
        """
        if isinstance(values, PackedSequence):
            return self._packed(values, state, trace)
        single = values.dim() == 2
        if single:
            values, state = values[None], _map(state, lambda part: part[:, None])
        elif not self.batch_first:
            values = values.transpose(0, 1)
        check_values(values, self.input_size)
        batch, time, _ = values.shape
        traces: list[list[DirectionTrace]] = []
        if self._fits_gpu(values, lengths is None, trace):  # rows stay as they are: neither sorted nor packed
            output, after = self._padded(values, state, lengths)
        elif lengths is not None and torch.compiler.is_compiling() and not trace:
            output, after = self._masked(values, state, lengths, at_once=True)  # one graph, whatever the lengths
        else:
            layout = Layout.of(lengths, batch, time, values.device)
            first = [layout.sort(parts) for parts in self._first(state, values)]
            run = self._layer_runner(self.choose_path(values, layout, trace), layout, first, trace)
            packed, last, traces = self._wire(layout.pack(values), run)
            output, after = layout.unpack(packed), self._join([layout.unsort(parts) for parts in last])
        if single:
            output, after = output[0], _map(after, lambda part: part[:, 0])
        elif not self.batch_first:
            output = output.transpose(0, 1)
        return (output, after, Trace(traces)) if trace else (output, after)

    def definition(self, values: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """What `forward` has to give, cell by cell and step by step; (B, T, I), batch first."""
        check_values(values, self.input_size)
        batch, time, _ = values.shape
        lengths = torch.full((batch,), time) if lengths is None else lengths
        check_lengths(lengths, batch, time)
        return self._masked(values, state, lengths, at_once=False)

    def _masked(self, values: Tensor, state: Any, lengths: Tensor, at_once: bool) -> tuple[Tensor, Any]:
        """Every row goes every step, and what comes after its end is thrown away; see `unroll_by_definition`."""
        batch, time, _ = values.shape
        check_shape(lengths, batch)
        running = length_mask(lengths.to(values.device), time)
        first = self._first(state, values)

        def run(depth: int, below: Tensor) -> Layer:
            ways = slice(depth * self.directions, (depth + 1) * self.directions)
            noise = [self._noise(depth, time, batch, below) for _ in range(self.directions)]
            made = [
                unroll_by_definition(cell, below, running, begin, noise[way], way == 1, at_once)
                for way, (cell, begin) in enumerate(zip(self._cells(depth), first[ways], strict=True))
            ]
            return torch.cat([output for output, _ in made], -1), [last for _, last in made], []

        clean = values.masked_fill(~running[:, :, None], 0.0)
        output, last, _ = self._wire(clean, run)
        return output.masked_fill(~running[:, :, None], 0.0), self._join(last)

    def _wire(
        self, values: Tensor, run: Callable[[int, Tensor], Layer]
    ) -> tuple[Tensor, list[State], list[list[DirectionTrace]]]:
        """One layer after the other; values (..., I) padded or packed, as `run(depth, values)` likes them."""
        below, states, traces = [values], [], []
        for depth in range(self.num_layers):
            seen = self.connections.into(below)
            made, last, trace = run(depth, self.between(seen) if depth else seen)
            below.append(self.connections.out(depth, below, made))
            states.extend(last)
            traces.append(trace)
        return below[-1], states, traces

    def choose_path(self, values: Tensor, layout: Layout, trace: bool) -> str:
        """Which way a call goes, for values (B, T, I): the quickest that was measured for its shape.

        "triton": `kernels.gpu_recurrent`; "torch": `kernels.torch_rnn`; "cpu": `kernels.cpu_recurrent`; "loop":
        `nn.unroll`, and where a trace is wanted.
        """
        if trace:
            return "loop"
        if self._fits_gpu(values, layout.full, trace):
            return "triton"
        if torch.compiler.is_compiling():  # neither torch's fused loops nor our kernel can be traced
            return "loop"
        cell = self._cells(0)[0]
        has_torch = self.fused is not None and layout.sizes[0] == layout.batch  # torch and cuDNN know no empty rows
        if values.is_cuda:
            return "torch" if has_torch else "loop"
        has_torch = has_torch and cell.output_size == self.hidden_size  # torch's projected loop is no faster than ours
        if pays(cell, values, layout, has_torch):
            return "cpu"
        return "torch" if has_torch and (layout.full or not torch.is_grad_enabled()) else "loop"

    def _fits_gpu(self, values: Tensor, equal: bool, trace: bool) -> bool:
        """Whether our own launch on a GPU is to be taken; `equal`: no row is shorter than the others."""
        cell = self._cells(0)[0]
        kind = None if trace or not values.is_cuda else kind_of(cell)
        if kind is None:
            return False
        known = self.fused is not None and not torch.compiler.is_compiling()
        return is_chosen(kind, values, compute_dtype(values, cell), self.hidden_size, self.directions, equal, known)

    def _padded(self, values: Tensor, state: Any, lengths: Tensor | None) -> tuple[Tensor, Any]:
        """All layers by our own launches, (B, T, I) -> (B, T, H x directions) and the last state."""
        batch, time, _ = values.shape
        first = None if state is None else self._first(state, values)
        steps, behind = values.transpose(0, 1), None  # (T, B, I), (T, B)
        if lengths is None:
            lengths = torch.full((batch,), time, dtype=torch.int32, device=values.device)
        else:
            lengths = lengths_for_gpu(lengths, batch, time, values.device)
            if torch.is_grad_enabled():  # what lies behind a row must not reach the gradients of W
                behind = torch.arange(time, device=values.device)[:, None] >= lengths
                if self.options.connections is not None:  # nor those of the layers above that see it too
                    steps, behind = steps.masked_fill(behind[:, :, None], 0.0), None

        def run(depth: int, below: Tensor) -> Layer:
            ways = slice(depth * self.directions, (depth + 1) * self.directions)
            noises = [self._noise(depth, time, batch, below) for _ in range(self.directions)]
            begin = None if first is None else first[ways]
            return *run_on_gpu(self._cells(depth), below, lengths, begin, noises, None if depth else behind), []

        output, last, _ = self._wire(steps, run)
        return output.transpose(0, 1), self._join(last)

    def _layer_runner(
        self, path: str, layout: Layout, first: list[State], trace: bool
    ) -> Callable[[int, Tensor], Layer]:
        """`run(depth, below)` of the path chosen; packed values (N, I)."""

        def run(depth: int, below: Tensor) -> Layer:
            begin = first[depth * self.directions : (depth + 1) * self.directions]
            if path == "torch":
                return self._run_torch(depth, below, layout, begin)
            noise = [self._noise(depth, layout.time, layout.batch, below).sorted(layout.order) for _ in begin]
            if path == "cpu":
                return *run_quick(self._cells(depth), below, layout, begin, noise), []
            made = [
                unroll(cell, below, layout, begin[way], noise[way], way == 1, trace)
                for way, cell in enumerate(self._cells(depth))
            ]
            output = torch.cat([output for output, _, _ in made], -1) if len(made) > 1 else made[0][0]
            return output, [last for _, last, _ in made], [seen for _, _, seen in made if seen is not None]

        return run

    def _run_torch(self, depth: int, below: Tensor, layout: Layout, begin: list[State]) -> Layer:
        joined = tuple(torch.stack(parts) for parts in zip(*begin, strict=True))
        weights, biased = torch_weights(self._cells(depth)), self._cells(depth)[0].bias_ih is not None
        output, last = run_layer(str(self.fused), below, layout.sizes, joined, weights, biased, self.training)
        return output, list(zip(*(part.unbind(0) for part in last), strict=True)), []

    def _cells(self, depth: int) -> list[Cell]:
        """The cells of one layer, forward first."""
        cells = list(self.cells)[depth * self.directions : (depth + 1) * self.directions]
        return [cell for cell in cells if isinstance(cell, Cell)]

    def _noise(self, depth: int, time: int, batch: int, like: Tensor) -> Noise:
        options, sizes = self.options, self._cells(depth)[0].state_sizes
        return draw_noise(options.recurrent_dropout, options.zoneout, self.training, time, batch, sizes, like)

    def _first(self, state: Any, values: Tensor) -> list[State]:
        """For each layer and direction the first state, parts (B, H), from torch's (layers x directions, B, H)."""
        count, batch, sizes = len(self.cells), values.shape[0], self._cells(0)[0].state_sizes
        if state is None:
            return [tuple(values.new_zeros(batch, size) for size in sizes) for _ in range(count)]
        parts = (state,) if isinstance(state, Tensor) else tuple(state)
        wanted = [(count, batch, size) for size in sizes]
        found = [tuple(part.shape) for part in parts]
        if found != wanted:
            raise ValueError(f"the state has shapes {found}, but this layer and input need {wanted}")
        return list(zip(*(part.unbind(0) for part in parts), strict=True))

    def _join(self, states: list[State]) -> Any:
        parts = tuple(torch.stack(part) for part in zip(*states, strict=True))
        return parts if len(parts) > 1 else parts[0]

    def _packed(self, packed: PackedSequence, state: Any, trace: bool) -> tuple[Any, ...]:
        padded, lengths = pad_packed_sequence(packed, self.batch_first)
        output, *rest = self.forward(padded, state, lengths, trace)
        return pack_padded_sequence(output, lengths, self.batch_first, packed.sorted_indices is None), *rest

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """After a move to a GPU, the weights lie as cuDNN wants them."""
        super()._apply(fn, recurse)
        for depth in range(self.num_layers if self.fused and self.cells[0].weight_ih.is_cuda else 0):
            cells = self._cells(depth)
            weights = torch_weights(cells)
            projection = cells[0].output_size if cells[0].output_size < self.hidden_size else 0
            flatten_for_cudnn(str(self.fused), weights, len(weights) // len(cells), self.hidden_size, projection)
        return self


def _map(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if state is None or isinstance(state, Tensor):
        return None if state is None else change(state)
    return tuple(change(part) for part in state)
