"""A recurrent decoder as the compiled decoders of `harken.kernels.decoding` take it.

Supported are RNN (tanh), LSTM and GRU cells of any size without peepholes, coupled gates and layer norm; every shipped
score but hard attention; attention before or after the step, input feeding, coverage, constant contexts, zoneout, and
residual connections. For other decoders `describe_recurrent` returns None, and search runs on the model itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor, nn

from harken.kernels.decoding.description import Linear, Recurrent
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
    cells = [_cell(cell) for cell in decoder.layers]
    kinds = {kind for kind, _ in cells}
    if None in kinds or config.connections not in ("none", "residual") or config.hard_attention:
        return None
    if score is not None and type(score) not in SCORES:
        return None
    linears = [linear for _, layer in cells for linear in layer]
    if isinstance(score, AdditiveScore):
        linears.append(Linear(score.query.weight, None))
    if score is not None:
        linears.append(Linear(decoder.combine.weight, None))
    if isinstance(model.narrow, nn.Linear):
        linears.append(Linear(model.narrow.weight, model.narrow.bias))
    covers = score.coverage if isinstance(score, AdditiveScore) else None
    return Recurrent(
        linears=[*linears, Linear(model.output_weight, model.output_bias, is_output=True)],
        cell=str(cells[0][0]),
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


def _cell(cell: nn.Module) -> tuple[str | None, list[Linear]]:
    """The name of a cell and its maps; None where it is not supported."""
    if type(cell) is LSTMCell and not (cell.kind.layer_norm or cell.coupled or cell.peephole or cell.proj_size):
        return "lstm", [_joined(cell.weight_ih, cell.weight_hh, cell.constant())]
    if type(cell) is RNNCell and not cell.kind.layer_norm and cell.nonlinearity == "tanh":
        return "rnn", [_joined(cell.weight_ih, cell.weight_hh, cell.constant())]
    if type(cell) is not GRUCell or cell.kind.layer_norm:
        return None, []
    gates, bias = 2 * cell.hidden_size, cell.constant()
    of_gates, of_candidate = (None, None) if bias is None else (bias[:gates], bias[gates:])
    first = _joined(cell.weight_ih[:gates], cell.weight_hh[:gates], of_gates)
    if cell.reset == "before":
        return "gru-before", [first, _joined(cell.weight_ih[gates:], cell.weight_hh[gates:], of_candidate)]
    of_input, of_hidden = (
        Linear(weight[gates:], added)
        for weight, added in ((cell.weight_ih, of_candidate), (cell.weight_hh, cell.inner_bias()))
    )
    return "gru", [first, of_input, of_hidden]


def _joined(of_input: Tensor, of_hidden: Tensor, bias: Tensor | None) -> Linear:
    """W x + U h + b as one map of [x; h]."""
    return Linear(of_input, bias, beside=of_hidden)
