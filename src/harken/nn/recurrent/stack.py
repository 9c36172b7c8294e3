"""Cells over time, in both directions, one layer above the other: what RNN, LSTM and GRU share.

`reference` calls every cell step by step (`harken.nn.recurrent.unroll`). `forward` computes the same by the backend
that is fastest for the call (`harken.kernels.recurrent.dispatch`). Both share the wiring of layers, directions,
connections and lengths below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from harken.kernels.recurrent.call import Call, Direction
from harken.kernels.recurrent.cudnn import flatten_for_cudnn, run_fused_stack, runs_whole_stack
from harken.kernels.recurrent.dispatch import Backend, choose
from harken.nn.dropout import Dropout
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.interop import accept_torch_names
from harken.nn.recurrent.options import StackOptions, check_input
from harken.nn.recurrent.packing import Layout, PaddedLayout, check_lengths, check_shape
from harken.nn.recurrent.regularization import draw_noise
from harken.nn.recurrent.trace import DirectionTrace, Trace
from harken.nn.recurrent.unroll import run_packed, run_padded


class Stack(nn.Module):
    """`make_cell(input_size)` gives a cell whose h is `output_size` wide."""

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
        self.between = Dropout(options.dropout)
        self.register_load_state_dict_pre_hook(accept_torch_names)

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
        x, state = self._batched(input, hx)
        call = self._call(x, lengths, trace)
        traces: list[list[DirectionTrace]] = []
        if x.shape[0] == 0:
            output, last = self._empty(x)
        else:
            backend = choose(call)
            if backend.name == "torch" and runs_whole_stack(call):
                output, last = self._run_fused(call, state)
            else:
                output, last, traces = self._run(backend, call, state)
        output, after = self._unbatched(input, output, last)
        return (output, after, Trace(traces)) if trace else (output, after)

    def reference(self, input: Tensor, hx: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """What `forward` computes, cell by cell and step by step; the same layout of input and output."""
        x, state = self._batched(input, hx)
        if lengths is not None:
            check_lengths(lengths, *x.shape[:2])
        backend = Backend("reference", lambda call: True, partial(run_padded, project_first=False), padded=True)
        output, last, _ = self._run(backend, self._call(x, lengths, trace=False), state)
        return self._unbatched(input, output, last)

    def backend(self, input: Tensor, lengths: Tensor | None = None, trace: bool = False) -> str:
        """The name of the backend that `forward` uses for this call."""
        return choose(self._call(self._batched(input, None)[0], lengths, trace)).name

    def _run(self, backend: Backend, call: Call, state: State | None) -> tuple[Tensor, State, list]:
        """All layers, one above the other: x (B, T, I) -> (B, T, H x directions), last states, traces."""
        x = call.x
        layout = self._padded_layout(call) if backend.padded else call.layout
        below = [layout.pack(x)]  # what each layer reads: (N, I) packed, or (T, B, I)
        if backend.padded:
            call = self._hide_padding(backend, call, layout, below)
        states: list[State] = []
        traces: list[list[DirectionTrace]] = []
        for depth in range(self.num_layers):
            seen = self.connections.into(below)
            seen = self.between(seen) if depth else seen
            directions = self._directions(depth, state, layout, seen)
            output, last, trace = backend.run(replace(call, x=seen, directions=directions))
            below.append(self.connections.out(depth, below, output))
            states += [layout.unsort(parts) for parts in last]
            traces.append(trace)
            call.padding = None  # the outputs of a layer are 0 there
        return layout.unpack(below[-1]), tuple(torch.stack(parts) for parts in zip(*states, strict=True)), traces

    def _run_fused(self, call: Call, state: State | None) -> tuple[Tensor, State]:
        """All layers in one call of torch's: x (B, T, I) -> (B, T, H x directions), last states."""
        layout = None if call.lengths is None else call.layout
        x = call.x.transpose(0, 1) if layout is None or layout.full else layout.pack(call.x)
        sizes = None if layout is None or layout.full else layout.batch_sizes
        order = None if layout is None else layout.sorted_indices
        if state is not None and order is not None:
            state = tuple(part.index_select(1, order) for part in state)
        output, last = run_fused_stack(call, x, sizes, state, list(self.cells))
        if order is not None:
            inverse = torch.argsort(order)
            last = tuple(part.index_select(1, inverse) for part in last)
        return output.transpose(0, 1) if sizes is None else call.layout.unpack(output), last

    def _call(self, x: Tensor, lengths: Tensor | None, trace: bool) -> Call:
        batch, time, _ = x.shape
        return Call(
            x,
            self.cells[0],
            self.bidirectional,
            lengths,
            partial(Layout.of, lengths, batch, time, x.device),
            reference=run_packed,
            masked_reference=run_padded,
            training=self.training,
            trace=trace,
            noisy=bool(self.options.zoneout or self.options.recurrent_dropout),
            connections=self.options.connections is not None,
            dropout=self.dropout if self.num_layers > 1 else 0.0,
        )

    def _padded_layout(self, call: Call) -> PaddedLayout:
        batch, time, _ = call.x.shape
        lengths = call.lengths
        if lengths is not None and torch.compiler.is_compiling():  # a graph cannot raise: kernels stay inside T anyway
            check_shape(lengths, batch)
            lengths = lengths.to(call.x.device, torch.int32).clamp(0, time)
        elif lengths is not None:
            check_lengths(lengths, batch, time)
            lengths = lengths.to(torch.int32).to(call.x.device, non_blocking=True)
        return PaddedLayout(lengths, batch, time)

    def _hide_padding(self, backend: Backend, call: Call, layout: PaddedLayout, below: list[Tensor]) -> Call:
        """What lies behind the end of a row must reach no gradient: it is 0 in x, or the kernel is told."""
        call = replace(call, lengths=layout.lengths)
        if layout.lengths is None or (backend.name == "triton" and not torch.is_grad_enabled()):
            return call
        padding = layout.is_padding(call.x.device)
        if backend.name == "triton" and not call.connections:
            return replace(call, padding=padding)
        assert padding is not None
        below[0] = below[0].masked_fill(padding[:, :, None], 0.0)
        return call

    def _directions(self, depth: int, state: State | None, layout: Any, like: Tensor) -> list[Direction]:
        """The directions of one layer, with their first states and the noise they draw."""
        options, made = self.options, []
        for way, cell in enumerate(self.cells_of(depth)):
            noise = draw_noise(
                options.recurrent_dropout,
                options.zoneout,
                self.training,
                layout.time,
                layout.batch,
                cell.state_sizes,
                like,
            ).sorted(layout.sorted_indices)
            place = depth * self.directions + way
            first = None if state is None else layout.sort(tuple(part[place] for part in state))
            made.append(Direction(cell, first, noise, reverse=way == 1))
        return made

    def cells_of(self, depth: int) -> list[Cell]:
        """The cells of one layer, the forward direction first."""
        cells = list(self.cells)[depth * self.directions : (depth + 1) * self.directions]
        return [cell for cell in cells if isinstance(cell, Cell)]

    def _batched(self, input: Tensor, hx: Any) -> tuple[Tensor, State | None]:
        """x (B, T, I), and the parts of the state (layers x directions, B, H)."""
        single = input.dim() == 2
        x = input[None] if single else input if self.batch_first else input.transpose(0, 1)
        check_input(x, self.input_size)
        if hx is None:
            return x, None
        parts = (hx,) if isinstance(hx, Tensor) else tuple(hx)
        parts = tuple(part[:, None] for part in parts) if single else parts
        sizes = self.cells_of(0)[0].state_sizes
        wanted = [(len(self.cells), x.shape[0], size) for size in sizes]
        found = [tuple(part.shape) for part in parts]
        if found != wanted:
            raise ValueError(f"the state has shapes {found}, but this layer and input need {wanted}")
        return x, parts

    def _unbatched(self, input: Tensor, output: Tensor, last: State) -> tuple[Tensor, Any]:
        """Output and state in the layout of the input."""
        if input.dim() == 2:
            output, last = output[0], tuple(part[:, 0] for part in last)
        elif not self.batch_first:
            output = output.transpose(0, 1)
        return output, last if len(last) > 1 else last[0]

    def _empty(self, x: Tensor) -> tuple[Tensor, State]:
        """No rows: outputs and states without rows."""
        cell = self.cells_of(0)[0]
        states = tuple(x.new_zeros(len(self.cells), 0, size) for size in cell.state_sizes)
        return x.new_zeros(0, x.shape[1], self.directions * cell.output_size), states

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """After a move to a GPU, the weights lie in memory as cuDNN needs them."""
        super()._apply(fn, recurse)
        if self.cells[0].weight_ih.is_cuda and self.cells_of(0)[0].kind.torch_name is not None:
            depths = range(self.num_layers)
            whole = self.options.connections is None
            for cells in [list(self.cells)] if whole else [self.cells_of(depth) for depth in depths]:
                flatten_for_cudnn(cells, self.bidirectional)
        return self
