"""The description of recurrent models for the compiled decoders and exporters (`harken.kernels.decoding.description`).

Described are RNN, LSTM and GRU cells without layer norm, projections and full peepholes; every shipped score but hard
attention; attention before or after the step, input feeding, coverage, constant contexts, zoneout, and all connections.

>>> from harken.nn import LSTM
>>> describe_layers(LSTM(3, 5, num_layers=2, bidirectional=True)).layers[1][0].weight_ih.shape
torch.Size([20, 10])
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from torch import nn

from harken.kernels.decoding.description import Cell, Connections, Linear, Recurrent, RecurrentStack, Undescribed
from harken.kernels.decoding.description import RecurrentEncoder as Encoder
from harken.kernels.weights import has_hooks
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.models.recurrent.encoder import RecurrentEncoder
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.recurrent import connections as shipped
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.stack import Stack

if TYPE_CHECKING:
    from harken.models.encoder_decoder import EncoderDecoder

CELLS: dict[type[nn.Module], str] = {RNNCell: "rnn", LSTMCell: "lstm", GRUCell: "gru"}
SCORES: dict[type[nn.Module], str] = {
    AdditiveScore: "additive",
    DotScore: "dot",
    ScaledDotScore: "dot",
    MultiplicativeScore: "dot",
    CosineScore: "cosine",
}


def describe_recurrent(model: EncoderDecoder) -> Recurrent:
    """A model with a recurrent decoder.

    Raises:
        Undescribed: the decoder is of another kind, or has a part without a description.
    """
    decoder = model.decoder
    if type(decoder) is not RecurrentDecoder or has_hooks(decoder):
        raise Undescribed(type(decoder).__name__)
    config, score = decoder.config, decoder.attend.score if decoder.attends else None
    if score is not None and type(score) not in SCORES:
        raise Undescribed(f"attention={type(score).__name__}")
    if config.hard_attention:
        raise Undescribed("hard_attention=True")
    covers = score.coverage if isinstance(score, AdditiveScore) else None
    return Recurrent(
        cells=tuple(describe_cell(cell) for cell in decoder.layers),
        connections=describe_connections(decoder.connections),
        output=Linear(model.output_weight, model.output_bias, is_output=True),
        embedding=config.embedding,
        width=config.width,
        target_embedding=model.target_embedding.weight,
        embedding_scale=decoder.scale,
        bridge=tuple(_linear(layer) for layer in decoder.bridge),
        keys=_keys(score),
        query=_linear(score.query) if isinstance(score, AdditiveScore) else None,
        combine=None if score is None else _linear(decoder.combine),
        narrow=_linear(model.narrow) if isinstance(model.narrow, nn.Linear) else None,
        score=None if score is None else SCORES[type(score)],
        scale=_scale(score, config.width),
        energy=score.energy.weight[0] if isinstance(score, AdditiveScore) else None,
        coverage=None if covers is None else covers.weight[:, 0],
        attends_before=decoder.attends_before,
        feeds_back=decoder.feeds_back,
        reads=tuple(decoder.reads),
        query_layer=decoder.query_layer % config.layers,
        constant_context=decoder.constant_context,
        zoneout=config.zoneout,
        encoder=_encoder(model),
    )


def _encoder(model: EncoderDecoder) -> Encoder | None:
    """The encoder of a model; None where it is of another kind or has a part without a description."""
    encoder = model.encoder
    if type(encoder) is not RecurrentEncoder or has_hooks(encoder):
        return None
    with suppress(Undescribed):
        join = None if model.join is None else _linear(model.join)
        return Encoder(model.source_embedding.weight, encoder.scale, describe_encoder(encoder), join)
    return None


def describe_encoder(encoder: RecurrentEncoder) -> RecurrentStack:
    """The layers of an encoder, each of them a `harken.nn` layer of its own.

    Raises:
        Undescribed: a cell has a part without a description.
    """
    layers: list[Any] = list(encoder.layers)
    cells = tuple(describe_layers(layer).layers[0] for layer in layers)
    return RecurrentStack(cells, describe_connections(encoder.connections))


def describe_layers(stack: Stack) -> RecurrentStack:
    """An RNN, LSTM or GRU of `harken.nn`.

    Raises:
        Undescribed: a cell has a part without a description.
    """
    layers = tuple(tuple(describe_cell(cell) for cell in stack.cells_of(depth)) for depth in range(stack.num_layers))
    if stack.options.zoneout:
        raise Undescribed(f"zoneout={stack.options.zoneout}")
    return RecurrentStack(layers, describe_connections(stack.connections))


def describe_cell(cell: Any) -> Cell:
    """One cell of exactly a shipped type, without hooks.

    Raises:
        Undescribed: a subclass, which may compute something else, or a part without a description.
    """
    kind = CELLS.get(type(cell))
    if kind is None or not cell.is_plain:
        raise Undescribed(f"cell={type(cell).__name__}")
    options: dict[str, Any] = {}
    undescribed = ["layer_norm=True"] if cell.norm_ih is not None else []
    if isinstance(cell, LSTMCell):
        undescribed += ["peephole='full'"] if cell.peephole == "full" else []
        undescribed += [f"proj_size={cell.proj_size}"] if cell.proj_size else []
        options = {"peephole": cell.weight_ch, "coupled": cell.coupled}
    elif isinstance(cell, GRUCell):
        options = {"reset": cell.reset}
    elif isinstance(cell, RNNCell):
        options = {"nonlinearity": cell.nonlinearity}
    if undescribed:
        raise Undescribed(", ".join(undescribed))
    return Cell(kind, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh, **options)


def describe_connections(connections: shipped.Connections) -> Connections:
    """The connections between layers."""
    gates = tuple(_linear(gate) for gate in connections.gates or ())
    return Connections(connections.kind, connections.first, gates)


def _keys(score: nn.Module | None) -> Linear | None:
    if isinstance(score, AdditiveScore):
        return _linear(score.memory)
    return _linear(score.weight) if isinstance(score, MultiplicativeScore) else None


def _scale(score: nn.Module | None, width: int) -> float:
    if isinstance(score, ScaledDotScore):
        return 1 / math.sqrt(width)
    return math.exp(-score.log_temperature.item()) if isinstance(score, CosineScore) else 1.0


def _linear(layer: Any) -> Linear:
    return Linear(layer.weight, layer.bias)
