"""Layers of sequence models, each a plain `torch.nn.Module`; `make docs` makes a page of all of them.

Drop-in for `torch.nn`: `RNN`, `LSTM`, `GRU` and their cells, `MultiheadAttention`, `Transformer` and its parts. To
build on: `Cell` and `Stack` for recurrent cells of your own, `AttentionPositions` for positions.
"""

from importlib import import_module
from typing import Any

from harken.kernels.recurrent.call import CellKind
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
from harken.nn.attention.torch_multihead import MultiheadAttention
from harken.nn.causality import refuse_bidirectional
from harken.nn.convolution.attention import SourceAttention, unfold
from harken.nn.convolution.convolution import Convolution
from harken.nn.convolution.dilated import DilatedBlock, DilatedDecoderBlock, dilations
from harken.nn.convolution.gated import GatedBlock, GatedDecoderBlock
from harken.nn.crf import CRF
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.loss import smoothed_cross_entropy
from harken.nn.masks import causal_mask, length_mask
from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.buckets import BucketPositions
from harken.nn.positions.dependency import dependency_distances
from harken.nn.positions.relative import RelativePositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.cell import Cell, Products, Step
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.layers import GRU, LSTM, RNN
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.stack import Stack
from harken.nn.recurrent.trace import DirectionTrace, Trace
from harken.nn.transformer.block import DecoderBlock, EncoderBlock, FeedForward
from harken.nn.transformer.experts import Balance, Experts
from harken.nn.transformer.stack import DecoderStack, EncoderStack
from harken.nn.transformer.torch_layers import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "CRF",
    "GRU",
    "LSTM",
    "RNN",
    "AdditiveScore",
    "AlibiPositions",
    "Attention",
    "AttentionPooling",
    "AttentionPositions",
    "Balance",
    "BucketPositions",
    "Cell",
    "CellKind",
    "Convolution",
    "CosineScore",
    "CrossAttention",
    "DecoderBlock",
    "DecoderStack",
    "DilatedBlock",
    "DilatedDecoderBlock",
    "DirectionTrace",
    "DotScore",
    "Dropout",
    "EncoderBlock",
    "EncoderStack",
    "Experts",
    "FeedForward",
    "GRUCell",
    "GatedBlock",
    "GatedDecoderBlock",
    "LSTMCell",
    "LearnedPositions",
    "MultiheadAttention",
    "MultiplicativeScore",
    "Products",
    "RNNCell",
    "RelativePositions",
    "RotaryPositions",
    "ScaledDotScore",
    "SelfAttention",
    "SinusoidalPositions",
    "SourceAttention",
    "Stack",
    "Step",
    "Trace",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "VariationalDropout",
    "additive_attend",
    "additive_attend_with_weights",
    "attend",
    "attend_with_weights",
    "causal_mask",
    "dependency_distances",
    "dilations",
    "export_onnx",
    "length_mask",
    "masked_softmax",
    "refuse_bidirectional",
    "smoothed_cross_entropy",
    "unfold",
]


def __getattr__(name: str) -> Any:
    """`export_onnx` is part of `harken.export`, which imports this package."""
    if name == "export_onnx":
        return import_module("harken.export.onnx_recurrent").export_onnx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
