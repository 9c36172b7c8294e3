"""RNN, LSTM and GRU layers: those of `torch.nn`, with what they lack.

Constructor, call and shapes are those of `torch.nn.RNN`, `LSTM` and `GRU` (time first unless `batch_first=True`), and
`from_torch` and `to_torch` convert between them. What is added:

lengths=                         how long each row is, in any order; padding changes nothing, padded outputs are 0
trace=True                       every gate and state of every step (`harken.nn.recurrent.trace`)
peephole, coupled                variants of the LSTM (`harken.nn.recurrent.lstm`)
reset="before"                   the GRU of Cho et al. (2014) (`harken.nn.recurrent.gru`)
layer_norm                       inside the cells (`harken.nn.recurrent.cell`)
zoneout, recurrent_dropout       noise on the states (`harken.nn.recurrent.regularization`)
connections                      "residual", "highway" or "dense" between layers (`harken.nn.recurrent.connections`)
orthogonal, forget_bias          the initial weights (`initialize`); `orthogonal=False` draws them as torch does

A returned state can be passed in again: a sequence in pieces gives what the whole gives.

>>> layer = LSTM(3, 5, bidirectional=True)
>>> output, (hidden, cell) = layer(torch.randn(7, 2, 3), lengths=torch.tensor([7, 4]))
>>> output.shape, hidden.shape, output[4:, 1].abs().max().item()
(torch.Size([7, 2, 10]), torch.Size([2, 2, 5]), 0.0)
>>> peer, x = nn.GRU(3, 5, num_layers=2), torch.randn(7, 2, 3)
>>> torch.equal(GRU.from_torch(peer)(x)[0], peer(x)[0]), type(GRU.from_torch(peer).to_torch()).__name__
(True, 'GRU')
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.interop import copy_weights, torch_arguments, torch_state
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.options import Bias, StackOptions
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.stack import Stack

__all__ = ["GRU", "LSTM", "RNN", "RecurrentLayer", "initialize"]


class RecurrentLayer(Stack):
    """A stack with initial weights, and the conversion to and from `torch.nn`."""

    peer: Any  # the class of torch.nn
    lacking: list[str]  # options in use that the peer lacks

    def begin(self, orthogonal: bool, forget_bias: float | None, device: Any, dtype: torch.dtype | None) -> None:
        """Draw the initial weights and move them to their device."""
        for cell in self.cells:
            if orthogonal:
                initialize(cell, forget_bias or 0.0)
            elif forget_bias is not None:
                set_forget_bias(cell, forget_bias)
        self.to(device=device, dtype=dtype)

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """A layer with the shape, the weights (copied) and the batch order of torch's own."""
        if not isinstance(module, cls.peer):
            found = f"{type(module).__module__}.{type(module).__name__}"
            raise ValueError(f"{cls.__name__}.from_torch takes torch.nn.{cls.peer.__name__}, not {found}")
        layer = cls(**torch_arguments(module))
        copy_weights(module, layer)
        return layer

    def to_torch(self) -> nn.RNNBase:
        """Torch's own layer with the same weights (copied)."""
        lacking = [*self.lacking, *self.options.extras()]
        if lacking:
            raise ValueError(f"torch.nn.{self.peer.__name__} has no {', '.join(lacking)}")
        options, example = self.options, self.cells[0].weight_ih
        assert isinstance(example, Tensor)
        module: nn.RNNBase = self.peer(
            options.input_size,
            options.hidden_size,
            options.num_layers,
            bias=options.bias not in (False, "none"),
            batch_first=options.batch_first,
            dropout=options.dropout,
            bidirectional=options.bidirectional,
            device=example.device,
            dtype=example.dtype,
            **self.peer_arguments(),
        )
        module.load_state_dict(torch_state(self))
        return module.train(self.training)

    def peer_arguments(self) -> dict[str, Any]:
        """Arguments of the peer's constructor beside the common ones."""
        return {}


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
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        super().__init__(options, hidden_size, lambda size: RNNCell(size, hidden_size, bias, nonlinearity, layer_norm))
        self.lacking = ["nonlinearity='sigmoid'"] if nonlinearity == "sigmoid" else []
        self.nonlinearity = nonlinearity
        self.begin(orthogonal, None, device, dtype)

    def peer_arguments(self) -> dict[str, Any]:
        return {"nonlinearity": self.nonlinearity}


class LSTM(RecurrentLayer):
    """LSTM; `peephole` is None, "diagonal" or "full", `coupled` means i = 1 - f; forget gates start open (bias 1)."""

    peer = nn.LSTM

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        peephole: str | None = None,
        coupled: bool = False,
        forget_bias: float | None = 1.0,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        super().__init__(
            options,
            proj_size or hidden_size,
            lambda size: LSTMCell(size, hidden_size, bias, peephole, coupled, proj_size, layer_norm),
        )
        self.lacking = [f"peephole={peephole!r}"] * bool(peephole) + ["coupled=True"] * coupled
        self.proj_size = proj_size
        self.begin(orthogonal, forget_bias, device, dtype)

    def peer_arguments(self) -> dict[str, Any]:
        return {"proj_size": self.proj_size}


class GRU(RecurrentLayer):
    """GRU; `reset` is "after" (torch's form) or "before", with opposite meanings of z (`harken.nn.recurrent.gru`)."""

    peer = nn.GRU

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: Bias = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        reset: str = "after",
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = True,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        super().__init__(options, hidden_size, lambda size: GRUCell(size, hidden_size, bias, reset, layer_norm))
        self.lacking = ["reset='before'"] if reset == "before" else []
        self.begin(orthogonal, None, device, dtype)


def initialize(module: nn.Module, forget_bias: float = 1.0) -> None:
    """Draw the weights of a cell, or of one of torch's recurrent layers.

    Orthogonal recurrent blocks keep the length of h, so that gradients neither vanish nor explode at the start (Saxe et
    al., 2014); input weights are Glorot-uniform; biases are 0, but the forget gates of LSTMs start open (Jozefowicz et
    al., 2015); peepholes are 0, so that the cell starts as a plain LSTM.
    """
    size = module.hidden_size
    assert isinstance(size, int)
    for name, parameter in module.named_parameters():
        if "norm" in name:
            continue
        if "weight_hh" in name:
            for block in parameter.data.split(size):
                nn.init.orthogonal_(block)
        elif "weight_ih" in name or "weight_hr" in name:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
    set_forget_bias(module, forget_bias)


def set_forget_bias(module: nn.Module, value: float) -> None:
    """Start the forget gates of an LSTM at sigmoid(value), where it has biases."""
    for name, parameter in module.named_parameters():
        if isinstance(module, nn.LSTM | LSTMCell) and "bias_" in name:
            gates = parameter.data.chunk(3 if getattr(module, "coupled", False) else 4)
            gates[0 if len(gates) == 3 else 1].fill_(value if "bias_ih" in name else 0.0)
