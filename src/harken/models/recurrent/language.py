"""A recurrent language model: the state carries all that was read, however long ago.

e_t = E[w_t],   h_t = layers(h_{t-1}, e_t),   P(w_{t+1} | ...) = softmax(E h_t + b)

The known regularisation (Merity et al., 2018, "Regularizing and Optimizing LSTM Language Models"), all in training:
weight drop on the recurrent matrices, variational dropout on embeddings, between layers and before the output, whole
words dropped from the embedding (Gal and Ghahramani, 2016), and the penalties a mean |m * h_t|^2 on the top layer's
activations and b mean |h_t - h_{t-1}|^2 on their change. The output layer shares the embedding where it is tied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from harken.models.language.base import LanguageNetwork, Read
from harken.models.recurrent.cell_options import CellOptions
from harken.models.recurrent.cells import make_layer
from harken.nn.causality import refuse_bidirectional
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.recurrent.cell import State
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.regularization import call_with_dropped_weights

PARTS = ("hidden", "cell")


@dataclass
class RecurrentLanguageState:
    """(h,) or (h, C) of every layer, each (B, H)."""

    layers: list[State]

    def select(self, rows: Tensor) -> RecurrentLanguageState:
        """Reorder, repeat or drop rows."""
        return RecurrentLanguageState([tuple(part[rows] for part in layer) for layer in self.layers])


class RecurrentLanguage(LanguageNetwork):
    """Keyword arguments are those of `RecurrentLanguageConfig`."""

    def __init__(
        self,
        size: int,
        *,
        embedding: int = 256,
        width: int = 512,
        layers: int = 1,
        cell: CellOptions = CellOptions(),  # noqa: B008 - frozen
        connections: str = "none",
        connections_from: int = 2,
        top: str = "width",
        dropout: float = 0.2,
        dropout_between: float | None = None,
        variational: bool = True,
        word_dropout: float = 0.0,
        weight_drop: float = 0.0,
        activation_penalty: float = 0.0,
        temporal_penalty: float = 0.0,
        tied: bool = True,
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        refuse_bidirectional(bidirectional, "a language model")
        kind = None if connections == "none" else connections
        self.connections = Connections(kind, embedding, width, layers, connections_from - 1)
        widths = [width] * (layers - 1) + [embedding if top == "embedding" else width]
        self.build_vocabulary(size, embedding, widths[-1], tied)
        self.scale = math.sqrt(embedding)  # embeddings are drawn small for the output layer they are tied to
        self.options, self.widths = cell, widths
        self.layers = nn.ModuleList(
            make_layer(cell, inputs, made, bidirectional=False)
            for inputs, made in zip(self.connections.input_sizes, widths, strict=True)
        )
        drop = VariationalDropout if variational else Dropout
        self.dropout, self.between = drop(dropout), drop(dropout if dropout_between is None else dropout_between)
        self.word_dropout, self.weight_drop = word_dropout, weight_drop
        self.activation_penalty, self.temporal_penalty = activation_penalty, temporal_penalty

    def read(self, tokens: Tensor, state: RecurrentLanguageState | None = None) -> Read:
        """Every layer reads the whole piece before the next does."""
        below, last = self._layers(tokens, state)
        made = self.dropout(below[-1])  # (B, T, H)
        penalty = self._penalty(below[-1], made) if self.training else None
        return Read(self.narrow(made), RecurrentLanguageState(last), penalty)

    def layers_of(self, tokens: Tensor, state: RecurrentLanguageState | None = None) -> Tensor:
        """(L, B, T, H); where the top layer is narrower, it is filled up with zeros."""
        made, width = self._layers(tokens, state)[0][1:], max(self.widths)
        return torch.stack([nn.functional.pad(one, (0, width - one.shape[-1])) for one in made])

    def start(self, rows: int) -> RecurrentLanguageState:
        """Zeros."""
        weight = self.embedding.weight
        return RecurrentLanguageState(
            [tuple(weight.new_zeros(rows, made) for _ in range(self.options.parts)) for made in self.widths]
        )

    def carried(self, rows: int) -> dict[str, Tensor]:
        """`hidden.0`, `cell.0` ... of every layer, (rows, H), in float32."""
        return {
            f"{part}.{depth}": torch.zeros(rows, made)
            for depth, made in enumerate(self.widths)
            for part in PARTS[: self.options.parts]
        }

    def _layers(self, tokens: Tensor, state: RecurrentLanguageState | None) -> tuple[list[Tensor], list[State]]:
        """The input and what each layer made of it (B, T, H), and the last state of each layer."""
        embedded = self.embedding(tokens) * self.scale  # (B, T, E)
        keep = self._kept_words(embedded)
        below, states = [embedded if keep is None else embedded * keep[tokens][:, :, None]], []
        for depth, layer in enumerate(self.layers):
            seen = (self.between if depth else self.dropout)(self.connections.into(below))
            begin = None if state is None else _for_layer([part.to(seen.dtype) for part in state.layers[depth]])
            made, last = call_with_dropped_weights(layer, self.weight_drop, seen, begin)
            below.append(self.connections.out(depth, below, made))
            states.append(tuple(part[0] for part in (last if isinstance(last, tuple) else (last,))))
        return below, states

    def _kept_words(self, like: Tensor) -> Tensor | None:
        """(V,): 0 for the words that are dropped everywhere in this batch, and the scale for all others."""
        if not self.training or self.word_dropout == 0:
            return None
        share = 1 - self.word_dropout
        return like.new_empty(self.embedding.num_embeddings).bernoulli_(share).div_(share)

    def _penalty(self, made: Tensor, dropped: Tensor) -> Tensor | None:
        """Of a token, from the top layer's states before and after dropout (B, T, H)."""
        if not (self.activation_penalty or self.temporal_penalty):
            return None
        found = self.activation_penalty * dropped.float().square().mean()
        if made.shape[1] > 1:
            found = found + self.temporal_penalty * (made[:, 1:] - made[:, :-1]).float().square().mean()
        return found


def _for_layer(state: Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    """h, or (h, C), with the axis of layers that torch has."""
    parts = tuple(part[None] for part in state)
    return parts if len(parts) > 1 else parts[0]
