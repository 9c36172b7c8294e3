"""Recurrent encoder: h_1 .. h_S over the source, in stacked layers that read in one direction or in both.

bidirectional = true       every layer reads in both directions, with half of the width each
bidirectional = "first"    the lowest layer alone, as in deep stacks (Wu et al., 2016)
bidirectional = false      left to right

Layers from `connections_from` on, counted from 1, have residual, highway or dense connections.
Sutskever et al. (2014); bidirectional: Bahdanau et al. (2015).

>>> import torch
>>> from harken.models.recurrent.config import RecurrentEncoderConfig
>>> encoder = RecurrentEncoder(RecurrentEncoderConfig(embedding=4, width=6))
>>> memory = encoder(torch.randn(2, 5, 4), torch.tensor([5, 3]))
>>> memory.values.shape, [part.shape for part in memory.states[0]]
(torch.Size([2, 5, 6]), [torch.Size([2, 6]), torch.Size([2, 6])])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor, nn

from harken.kernels.settings import device_only
from harken.models.base import Encoder, Memory
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.masks import length_mask
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.connections import Connections
from harken.nn.recurrent.layers import GRU, LSTM, RNN, initialize
from harken.nn.recurrent.options import StackOptions
from harken.nn.recurrent.stack import Stack
from harken.registry import CELLS

if TYPE_CHECKING:
    from harken.models.config import RecurrentConfig
    from harken.models.recurrent.config import RecurrentCellsConfig, RecurrentEncoderConfig

LAYERS: dict[str, Callable[..., Stack]] = {"rnn": RNN, "lstm": LSTM, "gru": GRU}


class RecurrentEncoder(Encoder):
    """Memory: the top layer's states (B, S, H), and the last state of every layer."""

    def __init__(self, config: RecurrentEncoderConfig | RecurrentConfig) -> None:
        super().__init__()
        self.embedding, self.width = config.embedding, config.width
        self.scale = math.sqrt(config.embedding)  # embeddings are small, for the output layer that may share them
        self.dropout = make_dropout(config, config.dropout)
        self.connections = make_connections(config)
        first, above = bool(config.bidirectional), config.bidirectional is True
        self.layers = nn.ModuleList(
            make_layer(config, size, config.width, bidirectional=above if depth else first)
            for depth, size in enumerate(self.connections.input_sizes)
        )

    def forward(self, embedded: Tensor, lengths: Tensor | None, distances: Tensor | None = None) -> Memory:
        """(B, S, E) -> values (B, S, H)."""
        below, states = [embedded * self.scale], []
        for depth, layer in enumerate(self.layers):
            outputs, last = layer(self.dropout(self.connections.into(below)), lengths=lengths)
            below.append(self.connections.out(depth, below, outputs))
            parts = last if isinstance(last, tuple) else (last,)  # each (directions, B, H / directions)
            states.append(tuple(part.transpose(0, 1).flatten(1) for part in parts))  # (B, H)
        mask = None if lengths is None else length_mask(lengths, embedded.shape[1])
        return Memory(self.dropout(below[-1]), mask, states)

    def stays_on_device(self, source: Tensor) -> bool:
        """Whether ids (B, S) on a GPU can be encoded without reading anything back, as a CUDA graph has to."""
        if not source.is_cuda:
            return False
        with device_only():
            return all(
                layer.backend(next(layer.parameters()).new_empty(*source.shape, layer.input_size, device=source.device))
                == "triton"
                for layer in self.layers
                if isinstance(layer, Stack)
            )


def make_layer(config: RecurrentCellsConfig, input_size: int, width: int, bidirectional: bool = False) -> Stack:
    """A layer over whole sequences; two directions share the width."""
    hidden, options = width // 2 if bidirectional else width, dict(config.cell_arguments)
    common = {
        "bidirectional": bidirectional,
        "batch_first": True,
        "zoneout": config.zoneout,
        "recurrent_dropout": config.recurrent_dropout,
    }
    if config.is_registered_cell:  # no backend knows it, so it is unrolled step by step
        shape = StackOptions(input_size, hidden, layer_norm=config.layer_norm, **common)  # type: ignore[arg-type]
        return Stack(shape, hidden, lambda size: make_cell(config, size, hidden))
    if config.cell == "lstm":
        options["forget_bias"] = config.forget_bias
    return LAYERS[config.cell](input_size, hidden, orthogonal=True, **common, **options)


def make_cell(config: RecurrentCellsConfig, input_size: int, width: int) -> Cell:
    """One step of a layer, with initial weights."""
    cell: Cell = CELLS.find(config.cell)(input_size, width, **config.cell_arguments)
    initialize(cell, config.forget_bias)
    return cell


def make_connections(config: RecurrentCellsConfig) -> Connections:
    """The connections between the layers of a stack."""
    kind = None if config.connections == "none" else config.connections
    return Connections(kind, config.embedding, config.width, config.layers, config.connections_from - 1)


def make_dropout(config: RecurrentCellsConfig, p: float) -> VariationalDropout | Dropout:
    """One mask for all steps (Gal and Ghahramani, 2016), or a new one for each."""
    return VariationalDropout(p) if config.variational else Dropout(p)
