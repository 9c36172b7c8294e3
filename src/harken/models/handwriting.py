"""Pen strokes point by point: stacked LSTMs, a mixture density on top, and a soft window over a text (S15).

h¹_t = LSTM¹([x_t; w_{t-1}], h¹_{t-1})            x_t = (dx, dy, lifted): the last point
w_t  = window(h¹_t, κ_{t-1}, c)                   the text, seen through `harken.nn.window`
hⁿ_t = LSTMⁿ([x_t; w_t; hⁿ⁻¹_t], hⁿ_{t-1})        inputs and window reach every layer
ŷ_t  = W [h¹_t; ...; hᴺ_t] + b                    read as a density by `harken.nn.mixture`: next point, lifted, over

Only the first layer has to wait for its window, so it alone goes step by step, and its weight gradients are made once
for all steps (`harken.kernels.deferred`); the layers above go the quickest way an LSTM has. Without a text there is no
window, and all layers do. Graves (2013), "Generating Sequences With Recurrent Neural Networks".

    state = model.start(characters (B, U), lengths (B,))          or model.start(rows=B) without a text
    density, state, weights (B, U) = model.step(points (B, 3), state)

>>> model = HandwritingModel(0, width=8, layers=2, mixtures=3)
>>> model(torch.zeros(2, 5, 3)).values.shape
torch.Size([2, 5, 20])
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from harken.kernels.deferred import DeferredLinear
from harken.nn.dropout import Dropout
from harken.nn.initialisation import initialise
from harken.nn.lstm import LSTMCell
from harken.nn.masks import length_mask
from harken.nn.mixture import PenMixture, parameters_of
from harken.nn.recurrent import LSTM
from harken.nn.window import GaussianWindow

POINT, MARKS = 3, 2  # dx, dy, lifted are read; lifted and over are written beside the place
PAD = 0


class Written(NamedTuple):
    """What the network says of a batch of drawings."""

    values: Tensor  # (B, T, 6 M + 2) to be read by `PenMixture.of`
    weights: Tensor | None  # (B, T, U) the window over the text


@dataclass(frozen=True)
class PenState:
    """Where each row of a batch stands."""

    layers: tuple[tuple[Tensor, Tensor], ...]  # (h, C) of every layer, (B, H) each
    characters: Tensor | None = None  # (B, U, E)
    mask: Tensor | None = None  # (B, U)
    seen: Tensor | None = None  # w (B, E)
    position: Tensor | None = None  # κ (B, K)

    def select(self, rows: Tensor) -> PenState:
        """These rows alone, in this order."""

        def chosen(value: Tensor | None) -> Tensor | None:
            return None if value is None else value[rows]

        return PenState(
            tuple((hidden[rows], cell[rows]) for hidden, cell in self.layers),
            *(chosen(value) for value in (self.characters, self.mask, self.seen, self.position)),
        )


class HandwritingModel(nn.Module):
    """See the module's text; `characters` is the size of the alphabet, 0 for drawings without a text."""

    def __init__(
        self,
        characters: int,
        *,
        width: int = 160,
        layers: int = 2,
        mixtures: int = 10,
        window: int = 6,
        embedding: int = 32,
        dropout: float = 0.0,
        pace: float = 16.0,
    ) -> None:
        super().__init__()
        self.width = width
        # Not trained, but saved with the weights: all movements are divided by it.
        self.deviation = nn.Parameter(torch.ones(()), requires_grad=False)
        seen = embedding if characters else 0  # E
        self.table = nn.Embedding(characters, embedding, padding_idx=PAD) if characters else None
        self.window = GaussianWindow(width, window, pace) if characters else None
        self.cell = LSTMCell(POINT + seen, width) if characters else None
        if self.cell is not None:
            initialise(self.cell)
        below = 0 if characters else 1  # without a text the first layer is like the others
        self.upper = nn.ModuleList(
            LSTM(POINT + seen + (width if number or characters else 0), width) for number in range(layers - 1 + below)
        )
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(layers * width, parameters_of(mixtures, MARKS))

    def fit(self, movements: Tensor) -> None:
        """Take the deviation from the movements (N, 2) of the training data, one for both directions."""
        with torch.no_grad():
            self.deviation.fill_(float(movements.double().square().mean().sqrt()) or 1.0)

    def forward(self, points: Tensor, characters: Tensor | None = None, lengths: Tensor | None = None) -> Written:
        """Points (B, T, 3), normalised, each the one before the point that is asked for; ids (B, U) of the texts."""
        hidden: list[Tensor] = []
        weights = None
        reads = points
        if self.cell is not None:
            state = self._begin(characters, lengths)
            first, seen, weights = self._first_layer(points, state)  # (B, T, H), (B, T, E), (B, T, U)
            reads = torch.cat([points, seen], -1)
            hidden.append(first)
        for layer in self.upper:
            below = torch.cat([reads, self.dropout(hidden[-1])], -1) if hidden else reads
            hidden.append(layer(below)[0])
        return Written(self.output(self.dropout(torch.cat(hidden, -1))), weights)

    def density(self, written: Written, bias: float = 0.0) -> PenMixture:
        """The numbers as a density."""
        return PenMixture.of(written.values, MARKS, bias)

    def start(self, characters: Tensor | None = None, lengths: Tensor | None = None, rows: int = 1) -> PenState:
        """Before the first point: ids (B, U) of the texts and their lengths (B,), or a number of rows without."""
        state = self._begin(characters, lengths) if self.cell is not None else None
        rows = rows if characters is None else len(characters)
        nothing = self.output.weight.new_zeros(rows, self.width)
        layers = tuple((nothing, nothing) for _ in range(len(self.upper) + (self.cell is not None)))
        return PenState(layers) if state is None else replace(state, layers=layers)

    def step(self, points: Tensor, state: PenState) -> tuple[Tensor, PenState, Tensor | None]:
        """The last points (B, 3), normalised -> numbers (B, 6 M + 2) of the next, the new state, the window (B, U)."""
        layers: list[tuple[Tensor, Tensor]] = []
        reads, weights, moved = points, None, state
        if self.cell is not None:
            assert self.window is not None and state.seen is not None and state.position is not None
            assert state.characters is not None and state.mask is not None
            layers.append(self.cell(torch.cat([points, state.seen], -1), state.layers[0]))
            look = self.window(layers[0][0], state.position, state.characters, state.mask)
            reads, weights = torch.cat([points, look.seen], -1), look.weights
            moved = replace(state, seen=look.seen, position=look.position)
        for layer in self.upper:
            below = torch.cat([reads, layers[-1][0]], -1) if layers else reads
            assert isinstance(layer, LSTM)
            layers.append(layer.cells[0](below, state.layers[len(layers)]))
        values = self.output(torch.cat([hidden for hidden, _ in layers], -1))
        return values, replace(moved, layers=tuple(layers)), weights

    def _begin(self, characters: Tensor | None, lengths: Tensor | None) -> PenState:
        """The texts embedded, nothing seen, the window at the beginning."""
        if characters is None or self.table is None or self.window is None:
            raise ValueError("this model writes texts: give the ids of their characters")
        rows = len(characters)
        embedded = self.table(characters)  # (B, U, E)
        mask = torch.ones_like(characters, dtype=embedded.dtype)
        if lengths is not None:
            mask = length_mask(lengths, characters.shape[1]).to(embedded.dtype)
        seen = embedded.new_zeros(rows, embedded.shape[-1])
        return PenState((), embedded, mask, seen, self.window.start(rows))

    def _first_layer(self, points: Tensor, state: PenState) -> tuple[Tensor, Tensor, Tensor]:
        """The layer that the window hangs on, one step after another."""
        cell, window = self.cell, self.window
        assert cell is not None and window is not None and state.seen is not None and state.position is not None
        assert state.characters is not None and state.mask is not None
        from_point, from_window = cell.weight_ih.split([POINT, cell.input_size - POINT], 1)
        inputs = torch.nn.functional.linear(points, from_point, cell.constant()).unbind(1)  # T of (B, 4 H)
        both = DeferredLinear(torch.cat([cell.weight_hh, from_window], 1))
        moving = DeferredLinear(window.project.weight)
        hidden = memory = points.new_zeros(len(points), self.width)
        seen, position = state.seen, state.position
        made: list[tuple[Tensor, Tensor, Tensor]] = []
        for values in inputs:
            gates = values + both(torch.cat([hidden, seen], -1))
            hidden, memory = lstm_step(gates, memory)
            seen, position, weights = window(hidden, position, state.characters, state.mask, moving)
            made.append((hidden, seen, weights))
        first, looks, weights = (torch.stack(part, 1) for part in zip(*made, strict=True))
        return first, looks, weights


def lstm_step(gates: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """E2 from the sums W x + U h + b (B, 4 H) on: input, forget, candidate, output."""
    write, forget, candidate, show = gates.chunk(4, -1)
    memory = torch.sigmoid(forget) * memory + torch.sigmoid(write) * torch.tanh(candidate)
    return torch.sigmoid(show) * torch.tanh(memory), memory
