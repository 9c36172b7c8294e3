"""A recurrent decoder as the compiled decoders of `harken.kernels.decoding` take it.

Supported are RNN (tanh), LSTM and GRU cells of any size without peepholes, coupled gates and layer norm; every shipped
score but hard attention; attention before or after the step, input feeding, coverage, constant contexts, zoneout, and
residual connections. For other decoders `describe_recurrent` returns None, and search runs on the model itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import nn

from harken.kernels.decoding.description import CellWeights, Linear, Recurrent
from harken.models.recurrent.decoder import RecurrentDecoder
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.rnn import RNNCell

if TYPE_CHECKING:
    from harken.models.encoder_decoder import EncoderDecoder

SCORES: dict[type[nn.Module], str] = {
    AdditiveScore: "additive",
    DotScore: "dot",
    ScaledDotScore: "dot",
    MultiplicativeScore: "dot",
    CosineScore: "cosine",
}


def describe_recurrent(model: EncoderDecoder) -> Recurrent | None:
    """The tensors of the decoder and the output layer; None where the decoder is not supported."""
    decoder = model.decoder
    if type(decoder) is not RecurrentDecoder:
        return None
    config, score = decoder.config, decoder.attend.score if decoder.attends else None
    cell = _name(decoder.layers[0])
    if cell is None or config.connections not in ("none", "residual") or config.hard_attention:
        return None
    if score is not None and type(score) not in SCORES:
        return None
    linears = []
    if isinstance(score, AdditiveScore):
        linears.append(Linear(score.query.weight, None))
    if score is not None:
        linears.append(Linear(decoder.combine.weight, None))
    if isinstance(model.narrow, nn.Linear):
        linears.append(Linear(model.narrow.weight, model.narrow.bias))
    covers = score.coverage if isinstance(score, AdditiveScore) else None
    return Recurrent(
        cells=[CellWeights(*(getattr(layer, name) for name in CellWeights._fields)) for layer in decoder.layers],
        linears=[*linears, Linear(model.output_weight, model.output_bias, is_output=True)],
        cell=cell,
        layers=config.layers,
        embedding=config.embedding,
        width=config.width,
        target_embedding=model.target_embedding.weight,
        embedding_scale=decoder.scale,
        score=None if score is None else SCORES[type(score)],
        scale=_scale(score, config.width),
        energy=score.energy.weight[0] if isinstance(score, AdditiveScore) else None,
        coverage=None if covers is None else covers.weight[:, 0],
        attends_before=decoder.attends_before,
        feeds_back=decoder.feeds_back,
        reads=tuple(decoder.reads),
        query_layer=decoder.query_layer % config.layers,
        residual_from=decoder.connections.first if config.connections == "residual" else config.layers,
        zoneout=config.zoneout,
        narrows=isinstance(model.narrow, nn.Linear),
    )


def _scale(score: nn.Module | None, width: int) -> float:
    if isinstance(score, ScaledDotScore):
        return 1 / math.sqrt(width)
    return math.exp(-score.log_temperature.item()) if isinstance(score, CosineScore) else 1.0


def _name(cell: nn.Module) -> str | None:
    """None where the cell is not supported; all layers have the same."""
    if not isinstance(cell, LSTMCell | GRUCell | RNNCell) or cell.kind.layer_norm:
        return None
    if type(cell) not in (LSTMCell, GRUCell, RNNCell):  # a subclass may compute something else
        return None
    if isinstance(cell, LSTMCell):
        return None if cell.coupled or cell.peephole or cell.proj_size else "lstm"
    if isinstance(cell, RNNCell):
        return "rnn" if cell.nonlinearity == "tanh" else None
    return "gru-before" if isinstance(cell, GRUCell) and cell.reset == "before" else "gru"
