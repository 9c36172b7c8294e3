"""Recurrent encoder: h_1 .. h_S over the source, stacked, each layer reading one way or both.

bidirectional = True       every layer reads both ways, half of the width each
bidirectional = "first"    the lowest layer alone, as in deep stacks whose other layers then run apart; Wu et al. (2016)
bidirectional = False      left to right

Between layers there are connections from layer `connections_from` on, counted from 1.
"""

from __future__ import annotations

import math

from torch import Tensor, nn

from harken.models.encoder import Encoder
from harken.models.memory import Memory
from harken.models.recurrent.cell_options import CellOptions
from harken.models.recurrent.cells import make_layer
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.masks import length_mask
from harken.nn.recurrent.connections import Connections


class RecurrentEncoder(Encoder):
    """Memory: the top layer's states (B, S, H), and the last state of every layer."""

    def __init__(
        self,
        *,
        embedding: int = 256,
        width: int = 512,
        layers: int = 1,
        cell: CellOptions = CellOptions(),  # noqa: B008 - frozen
        bidirectional: bool | str = True,
        connections: str = "none",
        connections_from: int = 2,
        dropout: float = 0.2,
        variational: bool = True,
    ) -> None:
        super().__init__()
        self.embedding, self.width = embedding, width
        if bidirectional and width % 2:
            raise ValueError(f"width {width} is odd, but a bidirectional encoder gives each direction half of it")
        self.scale = math.sqrt(embedding)  # embeddings are drawn small for the output layer they are tied to
        self.dropout = VariationalDropout(dropout) if variational else Dropout(dropout)
        kind = None if connections == "none" else connections
        self.connections = Connections(kind, embedding, width, layers, connections_from - 1)
        both = [bool(bidirectional) if depth == 0 else bidirectional is True for depth in range(layers)]
        self.layers = nn.ModuleList(
            make_layer(cell, size, width // 2 if two_ways else width, two_ways)
            for size, two_ways in zip(self.connections.input_sizes, both, strict=True)
        )

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> values (B, S, H)."""
        below, states = [embedded * self.scale], []
        for depth, layer in enumerate(self.layers):
            made, last = layer(self.dropout(self.connections.into(below)), lengths=lengths)
            below.append(self.connections.out(depth, below, made))
            parts = last if isinstance(last, tuple) else (last,)  # each (directions, B, H / directions)
            states.append(tuple(part.transpose(0, 1).flatten(1) for part in parts))  # (B, H)
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        return Memory(self.dropout(below[-1]), mask, states)
