"""The boxes a lecture draws: cells, attention, positions and blocks, each a plain `torch.nn.Module`."""

from harken.nn.attention.functional import (
    Attention,
    additive_attend,
    additive_attend_with_weights,
    attend,
    attend_with_weights,
    masked_softmax,
)
from harken.nn.attention.multihead import CrossAttention, SelfAttention
from harken.nn.attention.pooling import AttentionPooling
from harken.nn.attention.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.causality import refuse_bidirectional
from harken.nn.convolution.attention import SourceAttention, unfold
from harken.nn.convolution.convolution import Convolution
from harken.nn.convolution.dilated import DilatedBlock, DilatedDecoderBlock, dilations
from harken.nn.convolution.gated import GatedBlock, GatedDecoderBlock
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.loss import smoothed_cross_entropy
from harken.nn.masks import causal_mask, length_mask
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.dependency import dependency_depths, dependency_distances
from harken.nn.positions.relative import RelativePositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.layers import GRU, LSTM, RNN
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.onnx import export_onnx
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.trace import DirectionTrace, Trace
from harken.nn.transformer.balance import Balance
from harken.nn.transformer.block import DecoderBlock, EncoderBlock, FeedForward
from harken.nn.transformer.experts import Experts
from harken.nn.transformer.stack import TransformerDecoder, TransformerEncoder

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AdditiveScore",
    "AlibiPositions",
    "Attention",
    "AttentionPooling",
    "AttentionPositions",
    "Balance",
    "Convolution",
    "CosineScore",
    "CrossAttention",
    "DecoderBlock",
    "DilatedBlock",
    "DilatedDecoderBlock",
    "DirectionTrace",
    "DotScore",
    "Dropout",
    "EncoderBlock",
    "Experts",
    "FeedForward",
    "GRUCell",
    "GatedBlock",
    "GatedDecoderBlock",
    "LSTMCell",
    "LearnedPositions",
    "MultiplicativeScore",
    "RNNCell",
    "RelativePositions",
    "RotaryPositions",
    "ScaledDotScore",
    "SelfAttention",
    "SinusoidalPositions",
    "SourceAttention",
    "Trace",
    "TransformerDecoder",
    "TransformerEncoder",
    "VariationalDropout",
    "additive_attend",
    "additive_attend_with_weights",
    "attend",
    "attend_with_weights",
    "causal_mask",
    "dependency_depths",
    "dependency_distances",
    "dilations",
    "export_onnx",
    "length_mask",
    "masked_softmax",
    "refuse_bidirectional",
    "smoothed_cross_entropy",
    "unfold",
]
