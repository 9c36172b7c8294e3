"""RNN, LSTM and GRU layers: torch's, with what torch's lack.

They are made and called as `torch.nn.RNN`, `LSTM` and `GRU` are and return the same shapes, but batch first unless
`batch_first=False` is said (as everywhere in harken). What is added:

lengths=             how long each row is, in any order; padding changes nothing, padded outputs are 0
trace=True           every gate and state of every step (`harken.nn.recurrent.trace`)
peephole, coupled    LSTM: E4, E5 (`harken.nn.recurrent.lstm`);  reset="before": GRU as E6 has it
(`harken.nn.recurrent.gru`) layer_norm           inside the cells (`harken.nn.recurrent.cell`)
zoneout, recurrent_dropout         noise on the states (`harken.nn.recurrent.regularization`)
connections          "residual", "highway" or "dense" between layers (`harken.nn.recurrent.connections`)
orthogonal, forget_bias            the first weights (`harken.nn.recurrent.initialization`); `orthogonal=False`: as
torch draws

A state that comes out goes in again to read on: a sequence in pieces gives what the whole gives.

>>> import torch
>>> layer = LSTM(3, 5, bidirectional=True)
>>> output, (hidden, cell) = layer(torch.randn(2, 7, 3), lengths=torch.tensor([7, 4]))
>>> output.shape, hidden.shape, output[1, 4:].abs().max().item()
(torch.Size([2, 7, 10]), torch.Size([2, 2, 5]), 0.0)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.initialization import initialize
from harken.nn.recurrent.layer import RecurrentLayer
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.options import Bias, StackOptions
from harken.nn.recurrent.rnn import RNNCell

__all__ = ["GRU", "LSTM", "RNN", "initialize"]


class RNN(RecurrentLayer):
    """Vanilla RNN; `nonlinearity` is "tanh", "relu" or "sigmoid"."""

    peer = nn.RNN

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: Bias = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = StackOptions(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            layer_norm,
            zoneout,
            recurrent_dropout,
            connections,
        )
        super().__init__(
            options,
            hidden_size,
            lambda size: RNNCell(size, hidden_size, bias, nonlinearity, layer_norm),
            fused={"tanh": "RNN_TANH", "relu": "RNN_RELU"}.get(nonlinearity),
        )
        self.lacking = ["nonlinearity='sigmoid'"] if nonlinearity == "sigmoid" else []
        self.nonlinearity = nonlinearity
        self.begin(orthogonal, None, device, dtype)

    def peer_arguments(self) -> dict[str, Any]:
        return {"nonlinearity": self.nonlinearity}


class LSTM(RecurrentLayer):
    """LSTM; `peephole` is None, "diagonal" or "full", `coupled` E5; forget gates start open (bias 1)."""

    peer = nn.LSTM

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        *,
        peephole: str | None = None,
        coupled: bool = False,
        forget_bias: float | None = 1.0,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = StackOptions(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            layer_norm,
            zoneout,
            recurrent_dropout,
            connections,
        )
        super().__init__(
            options,
            proj_size or hidden_size,
            lambda size: LSTMCell(size, hidden_size, bias, peephole, coupled, proj_size, layer_norm),
            fused=None if peephole or coupled else "LSTM",
        )
        self.lacking = [f"peephole={peephole!r}"] * bool(peephole) + ["coupled=True"] * coupled
        self.proj_size = proj_size
        self.begin(orthogonal, forget_bias, device, dtype)

    def peer_arguments(self) -> dict[str, Any]:
        return {"proj_size": self.proj_size}


class GRU(RecurrentLayer):
    """GRU; `reset` is "after" (torch's form) or "before", each with its own meaning of z: see
    `harken.nn.recurrent.gru`.
    """

    peer = nn.GRU

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = True,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        reset: str = "after",
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        options = StackOptions(
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            layer_norm,
            zoneout,
            recurrent_dropout,
            connections,
        )
        super().__init__(
            options,
            hidden_size,
            lambda size: GRUCell(size, hidden_size, bias, reset, layer_norm),
            fused="GRU" if reset == "after" else None,
        )
        self.lacking = ["reset='before'"] if reset == "before" else []
        self.begin(orthogonal, None, device, dtype)
