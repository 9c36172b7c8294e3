"""The boxes a lecture draws: cells, attention, positions and blocks, each a plain `torch.nn.Module`."""

from harken.nn.attention import Attention, attend, attend_with_weights
from harken.nn.dropout import Dropout, VariationalDropout
from harken.nn.gru import GRUCell
from harken.nn.heads import CrossAttention, SelfAttention
from harken.nn.loss import smoothed_cross_entropy
from harken.nn.lstm import LSTMCell
from harken.nn.masks import causal_mask, length_mask
from harken.nn.positions import SinusoidalPositions
from harken.nn.recurrent import GRU, LSTM, RNN
from harken.nn.rnn import RNNCell
from harken.nn.scores import AdditiveScore, DotScore, MultiplicativeScore
from harken.nn.trace import DirectionTrace, Trace
from harken.nn.transformer import DecoderBlock, EncoderBlock, FeedForward

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AdditiveScore",
    "Attention",
    "CrossAttention",
    "DecoderBlock",
    "DirectionTrace",
    "DotScore",
    "Dropout",
    "EncoderBlock",
    "FeedForward",
    "GRUCell",
    "LSTMCell",
    "MultiplicativeScore",
    "RNNCell",
    "SelfAttention",
    "SinusoidalPositions",
    "Trace",
    "VariationalDropout",
    "attend",
    "attend_with_weights",
    "causal_mask",
    "length_mask",
    "smoothed_cross_entropy",
]
