"""Every gate, candidate and state of every step of a layer: the very tensors it computed with.

>>> from harken.nn import LSTM
>>> output, state, trace = LSTM(3, 5, num_layers=2)(torch.randn(7, 2, 3), trace=True)
>>> trace.names
('input', 'forget', 'candidate', 'output', 'hidden', 'cell')
>>> trace[1].forget.shape  # of the second layer, (B, T, H)
torch.Size([2, 7, 5])

A trace is batch first whatever the layer's layout is.

Gradients: call `trace.retain_grad()` before the backward pass; afterwards `trace[1].gradient("hidden")` is dL/dh_t for
every step, over all paths from h_t to the loss. (The tensors above are assembled from the steps and are not on the path
from inputs to loss; the steps are.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harken.kernels.recurrent.call import Noise
from harken.kernels.recurrent.packing import Layout
from harken.nn.recurrent.cell import Cell, State
from harken.nn.recurrent.regularization import zoneout


@dataclass(frozen=True)
class Recurrence:
    """The inputs and states to run the steps of a direction again, from which dh_t/dh_{t-1} is computed."""

    cell: Cell
    inputs: Sequence[Tensor]  # for each step W x + b (rows that run, gates x H), held fixed
    before: list[State]  # for each step the state it began from, parts (rows that run, H)
    noise: Noise
    reverse: bool = False

    def step(self, time: int, state: State) -> State:
        """Step t of the first rows: a state before it -> the state after it."""
        rows = state[0].shape[0]
        new = self.cell.step(self.inputs[time][:rows], state, self.cell.products(), self.noise.mask(rows)).state
        return zoneout(self.noise, time, state, new)


def _part(name: str, description: str) -> Any:
    """An attribute of a trace: `trace[0].forget` is `trace[0]["forget"]`."""
    return property(lambda trace: trace[name], doc=description)


@dataclass(frozen=True)
class DirectionTrace:
    """One layer in one direction; every gate and state is a tensor (B, T, H), 0 after a row's end.

    >>> from harken.nn import GRU
    >>> _, _, trace = GRU(3, 5, batch_first=True)(torch.randn(2, 7, 3), trace=True)
    >>> trace[0]
    DirectionTrace(2 rows x 7 steps x 5 units: reset, update, candidate, hidden)
    >>> isinstance(trace[0], DirectionTrace), trace[0].update.shape
    (True, torch.Size([2, 7, 5]))
    """

    steps: dict[str, list[Tensor]]  # name -> T tensors (rows that run, H), in the layout's order
    layout: Layout
    recurrence: Recurrence | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what this cell computes."""
        return tuple(self.steps)

    def __getitem__(self, name: str) -> Tensor:
        """A gate or state of all steps, (B, T, H)."""
        if name not in self.steps:
            raise KeyError(f"this cell has no {name!r}; it has {', '.join(self.steps)}")
        return self.layout.unpack(torch.cat(self.steps[name]))

    def __repr__(self) -> str:
        shape = f"{self.layout.batch} rows x {self.layout.time} steps x {self.steps['hidden'][0].shape[-1]} units"
        return f"DirectionTrace({shape}: {', '.join(self.names)})"

    def retain_grad(self) -> None:
        """Keep the gradients of the next backward pass."""
        for tensors in self.steps.values():
            for tensor in tensors:
                if tensor.requires_grad:
                    tensor.retain_grad()

    def gradient(self, name: str) -> Tensor:
        """dL/d(name) (B, T, H) of the last backward pass; 0 where the loss does not depend on a step."""
        steps = self.steps[name]
        if not any(step.retains_grad for step in steps):
            raise ValueError("no gradients were kept: call retain_grad() on the trace before the backward pass")
        return self.layout.unpack(torch.cat([torch.zeros_like(s) if s.grad is None else s.grad for s in steps]))

    input = _part("input", "i of an LSTM, the input gate (coupled: 1 - f).")
    forget = _part("forget", "f of an LSTM, the forget gate.")
    output = _part("output", "o of an LSTM, the output gate.")
    candidate = _part("candidate", "g of an LSTM, n of a GRU.")
    reset = _part("reset", "r of a GRU, the reset gate.")
    update = _part("update", "z of a GRU, the update gate, in the convention of its form (`harken.nn.recurrent.gru`).")
    hidden = _part("hidden", "h.")
    cell = _part("cell", "c of an LSTM.")


@dataclass(frozen=True)
class Trace:
    """All layers: `trace[depth]` reads forwards, `trace[depth, 1]` backwards.

    >>> from harken.nn import RNN
    >>> _, _, trace = RNN(3, 5, 2, bidirectional=True)(torch.randn(7, 2, 3), trace=True)
    >>> trace
    Trace(2 layers, both directions, the first: DirectionTrace(2 rows x 7 steps x 5 units: hidden))
    """

    layers: list[list[DirectionTrace]]  # [depth][direction]

    def __getitem__(self, which: int | tuple[int, int]) -> DirectionTrace:
        depth, direction = which if isinstance(which, tuple) else (which, 0)
        return self.layers[depth][direction]

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[list[DirectionTrace]]:
        return iter(self.layers)

    def __repr__(self) -> str:
        both = ", both directions" if len(self.layers[0]) > 1 else ""
        return f"Trace({len(self)} layer{'s' * (len(self) != 1)}{both}, the first: {self.layers[0][0]!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what the cells compute."""
        return self.layers[0][0].names

    def retain_grad(self) -> None:
        """Keep the gradients of the next backward pass in every layer and direction."""
        for layer in self.layers:
            for direction in layer:
                direction.retain_grad()
