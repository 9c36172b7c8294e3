"""Handwriting: stacked LSTMs over pen strokes, with a mixture density and a soft window over a text (Graves, 2013).

h¹_t = LSTM¹([x_t; w_{t-1}], h¹_{t-1})            x_t = (dx, dy, lifted): the last point
w_t  = window(h¹_t, κ_{t-1}, c)                   the text, seen through `harken.nn.recurrent.windowed_lstm`
hⁿ_t = LSTMⁿ([x_t; w_t; hⁿ⁻¹_t], hⁿ_{t-1})        inputs and window reach every layer
ŷ_t  = W [h¹_t; ...; hᴺ_t] + b                    read as a density by `harken.nn.mixture`: next point, lifted, over

Only the first layer depends on its window step by step (`harken.nn.recurrent.windowed_lstm`); those above are plain
LSTMs over the whole sequence. Without a text there is no window.

    state = model.start(characters (B, U), lengths (B,))          or model.start(rows=B) without a text
    density, state, weights (B, U) = model.step(points (B, 3), state)

>>> model = HandwritingModel(PenConfig(width=8, layers=2, mixtures=3), characters=0)
>>> model(torch.zeros(2, 5, 3)).values.shape
torch.Size([2, 5, 20])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from harken.data.tokenizers.tokens import PAD
from harken.models.heads.config import PenConfig
from harken.nn.dropout import Dropout
from harken.nn.masks import length_mask
from harken.nn.mixture import PenMixture, parameters_of
from harken.nn.recurrent.layers import LSTM
from harken.nn.recurrent.windowed_lstm import WindowedLSTM

POINT, MARKS = 3, 2  # dx, dy, lifted are read; lifted and over are written beside the place


class Written(NamedTuple):
    """The outputs for a batch of drawings."""

    values: Tensor  # (B, T, 6 M + 2) to be read by `PenMixture.of`
    weights: Tensor | None  # (B, T, U) the window over the text


class Text(NamedTuple):
    """The texts of a batch, and the position of the window in them."""

    characters: Tensor  # (B, U, E)
    mask: Tensor  # (B, U)
    view: Tensor  # w (B, E)
    position: Tensor  # κ (B, K)


@dataclass(frozen=True)
class PenState:
    """The state of each row of a batch."""

    layers: tuple[tuple[Tensor, Tensor], ...]  # (h, C) of every layer, (B, H) each
    text: Text | None = None

    def select(self, rows: Tensor) -> PenState:
        """Reorder, repeat or drop rows."""
        text = None if self.text is None else Text(*(value[rows] for value in self.text))
        return PenState(tuple((hidden[rows], cell[rows]) for hidden, cell in self.layers), text)


class HandwritingModel(nn.Module):
    """See the module's docstring; `characters` is the size of the alphabet, 0 for drawings without a text."""

    def __init__(self, config: PenConfig, characters: int) -> None:
        super().__init__()
        width, layers, embedding = config.width, config.layers, config.embedding
        self.width = width
        # Without a gradient, but saved with the weights: all movements are divided by it.
        self.deviation = nn.Parameter(torch.ones(()), requires_grad=False)
        text_width = embedding if characters else 0  # E
        self.table = nn.Embedding(characters, embedding, padding_idx=PAD) if characters else None
        self.first = None
        if characters:
            self.first = WindowedLSTM(POINT, width, characters=embedding, gaussians=config.window, pace=config.pace)
        below = 0 if characters else 1  # without a text the first layer is like the others
        self.upper = nn.ModuleList(
            LSTM(POINT + text_width + (width if number or characters else 0), width, batch_first=True, orthogonal=True)
            for number in range(layers - 1 + below)
        )
        self.dropout = Dropout(config.dropout)
        self.output = nn.Linear(layers * width, parameters_of(config.mixtures, MARKS))

    def fit(self, movements: Tensor) -> None:
        """The deviation of the training movements (N, 2), one for both directions."""
        with torch.no_grad():
            self.deviation.fill_(float(movements.double().square().mean().sqrt()) or 1.0)

    def forward(self, points: Tensor, characters: Tensor | None = None, lengths: Tensor | None = None) -> Written:
        """Points (B, T, 3), normalised, each the one before the predicted point; ids (B, U) of the texts."""
        hidden: list[Tensor] = []
        weights = None
        reads = points
        if self.first is not None:
            texts, mask = self._embed(characters, lengths)
            windowed = self.first(points, texts, mask)
            reads, weights = torch.cat([points, windowed.view], -1), windowed.weights
            hidden.append(windowed.hidden)
        for layer in self.upper:
            below = torch.cat([reads, self.dropout(hidden[-1])], -1) if hidden else reads
            hidden.append(layer(below)[0])
        return Written(self.output(self.dropout(torch.cat(hidden, -1))), weights)

    def dry_run(self, length: int, characters: int = 9) -> Tensor:
        """Values (1, T, 6 M + 2) of a drawing of `length` points and its text (`harken.models.sizing`)."""
        points = self.output.weight.new_zeros(1, length, POINT)
        text = torch.ones(1, characters, dtype=torch.long, device=points.device)
        written: Written = self(points) if self.first is None else self(points, text)
        return written.values

    def density(self, written: Written, bias: float = 0.0) -> PenMixture:
        """The values as a density."""
        return PenMixture.of(written.values, MARKS, bias)

    def start(self, characters: Tensor | None = None, lengths: Tensor | None = None, rows: int = 1) -> PenState:
        """Before the first point: ids (B, U) of the texts and their lengths (B,), or a number of rows without."""
        rows = rows if characters is None else len(characters)
        zeros = self.output.weight.new_zeros(rows, self.width)
        layers = tuple((zeros, zeros) for _ in range(len(self.upper) + (self.first is not None)))
        if self.first is None:
            return PenState(layers)
        texts, mask = self._embed(characters, lengths)
        return PenState(layers, Text(texts, mask, *self.first.start(texts)))

    def step(self, points: Tensor, state: PenState) -> tuple[Tensor, PenState, Tensor | None]:
        """The last points (B, 3), normalised -> numbers (B, 6 M + 2) of the next, the new state, the window (B, U)."""
        layers: list[tuple[Tensor, Tensor]] = []
        reads, weights, text = points, None, state.text
        if self.first is not None and text is not None:
            first, look = self.first.step(points, state.layers[0], text.view, text.position, text.characters, text.mask)
            layers.append(first)
            reads, weights = torch.cat([points, look.view], -1), look.weights
            text = text._replace(view=look.view, position=look.position)
        for layer in self.upper:
            assert isinstance(layer, LSTM)
            below = torch.cat([reads, layers[-1][0]], -1) if layers else reads
            layers.append(layer.cells[0](below, state.layers[len(layers)]))
        values = self.output(torch.cat([hidden for hidden, _ in layers], -1))
        return values, PenState(tuple(layers), text), weights

    def _embed(self, characters: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Ids (B, U) -> (B, U, E), and a mask (B, U) of 1 and 0."""
        if characters is None or self.table is None:
            raise ValueError("this model writes texts: give the ids of their characters")
        embedded = self.table(characters)
        if lengths is None:
            return embedded, torch.ones_like(characters, dtype=embedded.dtype)
        return embedded, length_mask(lengths, characters.shape[1]).to(embedded.dtype)
