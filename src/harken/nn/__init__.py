"""The boxes a lecture draws: cells, attention, positions and blocks, each a plain `torch.nn.Module`."""

from harken.nn.additive import additive_attend, additive_attend_with_weights
from harken.nn.alibi import AlibiPositions
from harken.nn.attention import Attention, attend, attend_with_weights, lookup
from harken.nn.attention_positions import AttentionPositions
from harken.nn.balance import Balance
from harken.nn.causality import refuse_bidirectional
from harken.nn.conv import Convolution
from harken.nn.conv_attention import SourceAttention, unfold
from harken.nn.conv_dilated import DilatedBlock, DilatedDecoderBlock, dilations
from harken.nn.conv_gated import GatedBlock, GatedDecoderBlock
from harken.nn.dependency import dependency_depths, dependency_distances
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.experts import Experts
from harken.nn.export import export_onnx
from harken.nn.gru import GRUCell
from harken.nn.heads import CrossAttention, SelfAttention
from harken.nn.loss import smoothed_cross_entropy
from harken.nn.lstm import LSTMCell
from harken.nn.masks import causal_mask, length_mask
from harken.nn.pooling import AttentionPooling
from harken.nn.positions import LearnedPositions, SinusoidalPositions
from harken.nn.recurrent import GRU, LSTM, RNN
from harken.nn.relative import RelativePositions
from harken.nn.rnn import RNNCell
from harken.nn.rotary import RotaryPositions
from harken.nn.scores import AdditiveScore, CosineScore, DotScore, MultiplicativeScore, ScaledDotScore
from harken.nn.trace import DirectionTrace, Trace
from harken.nn.transformer import DecoderBlock, EncoderBlock, FeedForward
from harken.nn.transformer_stack import TransformerDecoder, TransformerEncoder

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
    "lookup",
    "refuse_bidirectional",
    "smoothed_cross_entropy",
    "unfold",
]
