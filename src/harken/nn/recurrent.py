"""Stacked, bidirectional LSTM and GRU layers that know how long each row is (S6, S7).

They take and return what `torch.nn.LSTM` and `torch.nn.GRU` do, batch first, and share their `state_dict`; what is
added is `lengths=` in any order: padding changes neither outputs nor last states, and padded outputs are 0. Inside
runs torch's own fused loop, because it is the quickest there is on CPU and GPU for the plain cells; the definition it
is tested against steps through `LSTMCell` and `GRUCell`.

>>> import torch
>>> layer = LSTM(3, 5, bidirectional=True)
>>> output, (hidden, cell) = layer(torch.randn(2, 7, 3), lengths=torch.tensor([7, 4]))
>>> output.shape, hidden.shape, output[1, 4:].abs().max().item()
(torch.Size([2, 7, 10]), torch.Size([2, 2, 5]), 0.0)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from harken.nn.lstm import LSTMCell


class _Recurrent(nn.Module):
    """What both layers share: `lengths=` in front of torch's own."""

    inner: nn.RNNBase

    def forward(self, values: Tensor, state: Any = None, lengths: Tensor | None = None) -> tuple[Tensor, Any]:
        """(B, T, I) -> (B, T, H x directions) and the states after each row's last real step."""
        if lengths is None:
            return self.inner(values, state)
        packed = pack_padded_sequence(values, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, state = self.inner(packed, state)
        return pad_packed_sequence(output, batch_first=True, total_length=values.shape[1])[0], state


class LSTM(_Recurrent):
    """`torch.nn.LSTM`, batch first, with lengths; forget gates start open (bias 1)."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.inner = nn.LSTM(
            input_size, hidden_size, num_layers, batch_first=True, bidirectional=bidirectional, dropout=dropout
        )
        initialise(self.inner)


class GRU(_Recurrent):
    """`torch.nn.GRU`, batch first, with lengths."""

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bidirectional: bool = False, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.inner = nn.GRU(
            input_size, hidden_size, num_layers, batch_first=True, bidirectional=bidirectional, dropout=dropout
        )
        initialise(self.inner)


def initialise(module: nn.Module) -> None:
    """Glorot-uniform input weights, orthogonal recurrent blocks, zero biases, and forget gates of LSTMs at 1."""
    for name, parameter in module.named_parameters():
        if "weight_hh" in name:
            for block in parameter.data.split(parameter.shape[1]):
                nn.init.orthogonal_(block)
        elif "weight_ih" in name:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
            if isinstance(module, nn.LSTM | LSTMCell) and "bias_ih" in name:
                _, forget, _, _ = parameter.data.chunk(4)
                forget.fill_(1.0)
