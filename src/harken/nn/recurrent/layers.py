"""RNN, LSTM and GRU layers: those of `torch.nn`, with what they lack.

Constructor, defaults, call, shapes, initial weights from the same seed, and the names in `state_dict` are those of
`torch.nn.RNN`, `LSTM` and `GRU`: changing the class keeps every result. What is added:

lengths=                         how long each row is, in any order; padding changes nothing, padded outputs are 0
trace=True                       every gate and state of every step (`harken.nn.recurrent.trace`)
peephole, coupled                variants of the LSTM (`harken.nn.recurrent.lstm`)
reset="before"                   the GRU of Cho et al. (2014) (`harken.nn.recurrent.gru`)
layer_norm                       inside the cells (`harken.nn.recurrent.cell`)
zoneout, recurrent_dropout       noise on the states (`harken.nn.recurrent.regularization`)
connections                      "residual", "highway" or "dense" between layers (`harken.nn.recurrent.connections`)
orthogonal, forget_bias          other initial weights than torch's (`initialize`)

A returned state can be passed in again: a sequence in pieces gives what the whole gives.

>>> layer = LSTM(3, 5, bidirectional=True)
>>> output, (hidden, cell) = layer(torch.randn(7, 2, 3), lengths=torch.tensor([7, 4]))
>>> output.shape, hidden.shape, output[4:, 1].abs().max().item()
(torch.Size([7, 2, 10]), torch.Size([2, 2, 5]), 0.0)
>>> _ = torch.manual_seed(0)
>>> peer, x = nn.GRU(3, 5, num_layers=2), torch.randn(7, 2, 3)
>>> _ = torch.manual_seed(0)
>>> torch.equal(GRU(3, 5, num_layers=2)(x)[0], peer(x)[0])
True
>>> torch.equal(GRU.from_torch(peer)(x)[0], peer(x)[0]), type(GRU.from_torch(peer).to_torch()).__name__
(True, 'GRU')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import torch
from torch import Tensor, nn

from harken.kernels.recurrent.call import PARAMETERS
from harken.nn.recurrent.cell import Cell
from harken.nn.recurrent.gru import GRUCell
from harken.nn.recurrent.interop import copy_weights, torch_arguments, torch_state
from harken.nn.recurrent.lstm import LSTMCell
from harken.nn.recurrent.options import Bias, StackOptions
from harken.nn.recurrent.rnn import RNNCell
from harken.nn.recurrent.stack import Stack

__all__ = ["GRU", "LSTM", "RNN", "RecurrentLayer", "initialize"]


class RecurrentLayer(Stack):
    """A stack with initial weights, the other attributes of torch's layers, and the conversion to and from them."""

    peer: Any  # the class of torch.nn
    unsupported_by_torch: list[str]  # options in use that the peer lacks
    proj_size = 0

    def __init__(
        self,
        cell: Callable[..., Cell],
        options: StackOptions,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
        orthogonal: bool,
        forget_bias: float | None = None,
        output_size: int = 0,
        **cell_options: Any,
    ) -> None:
        """The arguments that all three have; `cell_options` are the rest of those of `cell`."""
        size, bias, layer_norm = options.hidden_size, options.bias, options.layer_norm
        # drawn where and as torch does, but orthogonal weights in float32 first, as QR has no half precision
        factory: dict[str, Any] = {} if orthogonal else {"device": device, "dtype": dtype}
        super().__init__(
            options,
            output_size or size,
            lambda inputs: cell(inputs, size, bias, layer_norm=layer_norm, **cell_options, **factory),
        )
        self._initial = (orthogonal, forget_bias)
        self._initialize()
        self.to(device=device, dtype=dtype)

    def _initialize(self) -> None:
        """Draw other initial weights than torch's where options ask for them."""
        orthogonal, forget_bias = self._initial
        for cell in self.cells:
            if orthogonal:
                initialize(cell, 1.0 if forget_bias is None else forget_bias)
            elif forget_bias is not None:
                set_forget_bias(cell, forget_bias)

    def reset_parameters(self) -> None:
        """Draw the initial weights anew."""
        for cell in self._bind():
            cell.draw()
        self._initialize()

    @property
    def mode(self) -> str:
        """Torch's name of the cell, such as "LSTM" or "RNN_TANH"; harken's where torch has none."""
        kind = self.cells_of(0)[0].kind
        return kind.torch_name or kind.name.upper()

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction, as torch's layers give them."""
        return [[weight for name, weight in cell.named_weights() if name in PARAMETERS] for cell in self._bind()]

    @classmethod
    def from_torch(cls, module: nn.RNNBase) -> Self:
        """A layer with the shape, the weights (copied) and the batch order of torch's own."""
        if not isinstance(module, cls.peer):
            given = f"{type(module).__module__}.{type(module).__name__}"
            raise ValueError(f"{cls.__name__}.from_torch takes torch.nn.{cls.peer.__name__}, not {given}")
        layer = cls(**torch_arguments(module))
        copy_weights(module, layer)
        return layer

    def to_torch(self) -> nn.RNNBase:
        """Torch's own layer with the same weights (copied)."""
        unsupported = [*self.unsupported_by_torch, *self.options.extras()]
        if unsupported:
            raise ValueError(f"torch.nn.{self.peer.__name__} has no {', '.join(unsupported)}")
        options, example = self.options, self.cells_of(0)[0].weight_ih
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
    """Vanilla RNN, drop-in for `torch.nn.RNN`; `nonlinearity` is "tanh", "relu" or "sigmoid".

    Shapes: input (T, B, I), or (B, T, I) with `batch_first=True`, or (T, I), or a PackedSequence; output (T, B, H x
    directions); h (layers x directions, B, H).

    >>> RNN(3, 5, 2, nonlinearity="relu", bidirectional=True)(torch.randn(7, 4, 3))[0].shape
    torch.Size([7, 4, 10])
    """

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
        orthogonal: bool = False,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        super().__init__(RNNCell, options, device, dtype, orthogonal, nonlinearity=nonlinearity)
        self.unsupported_by_torch = ["nonlinearity='sigmoid'"] if nonlinearity == "sigmoid" else []
        self.nonlinearity = nonlinearity

    def peer_arguments(self) -> dict[str, Any]:
        return {"nonlinearity": self.nonlinearity}


class LSTM(RecurrentLayer):
    """LSTM, drop-in for `torch.nn.LSTM`, and its variants (`harken.nn.recurrent.lstm`).

    Args:
        input_size, ..., dtype: as in torch.
        peephole: None, "diagonal" or "full".
        coupled: i = 1 - f.
        forget_bias: the initial bias of the forget gates; None: torch's, or 1 with `orthogonal=True`.
        layer_norm, zoneout, recurrent_dropout, connections: see the module.
        orthogonal: orthogonal recurrent weights at the start (`initialize`).

    Shapes: input (T, B, I), or (B, T, I) with `batch_first=True`, or (T, I), or a PackedSequence; output (T, B, H x
    directions); h and c (layers x directions, B, H).

    >>> LSTM(3, 5, num_layers=2, dropout=0.1, peephole="diagonal")
    LSTM(3, 5, num_layers=2, dropout=0.1, peephole='diagonal')
    >>> output, (h, c) = LSTM(3, 5)(torch.randn(7, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([7, 2, 5]), torch.Size([1, 2, 5]))
    """

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
        forget_bias: float | None = None,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        recurrent_dropout: float = 0.0,
        connections: str | None = None,
        orthogonal: bool = False,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        variant = {"peephole": peephole, "coupled": coupled, "proj_size": proj_size}
        super().__init__(LSTMCell, options, device, dtype, orthogonal, forget_bias, proj_size, **variant)
        self.unsupported_by_torch = [f"peephole={peephole!r}"] * bool(peephole) + ["coupled=True"] * coupled
        self.proj_size = proj_size

    def peer_arguments(self) -> dict[str, Any]:
        return {"proj_size": self.proj_size}


class GRU(RecurrentLayer):
    """GRU, drop-in for `torch.nn.GRU`; `reset` is "after" (torch's form) or "before" (`harken.nn.recurrent.gru`).

    Shapes are those of `RNN`.

    >>> GRU(3, 5, reset="before", batch_first=True)(torch.randn(4, 7, 3))[0].shape
    torch.Size([4, 7, 5])
    """

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
        orthogonal: bool = False,
    ) -> None:
        common = (input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)
        options = StackOptions(*common, layer_norm, zoneout, recurrent_dropout, connections)
        super().__init__(GRUCell, options, device, dtype, orthogonal, reset=reset)
        self.unsupported_by_torch = ["reset='before'"] if reset == "before" else []


def initialize(module: nn.Module, forget_bias: float = 1.0) -> None:
    """Draw the weights of a cell, or of one of torch's recurrent layers.

    Orthogonal recurrent blocks keep the length of h, so that gradients neither vanish nor explode at the start (Saxe et
    al., 2014); input weights are Glorot-uniform; biases are 0, but the forget gates of LSTMs start open (Jozefowicz et
    al., 2015); peepholes are 0, so that the cell starts as a plain LSTM.
    """
    size = module.hidden_size
    assert isinstance(size, int)
    for name, parameter in _weights_of(module):
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
    for name, parameter in _weights_of(module):
        if isinstance(module, nn.LSTM | LSTMCell) and "bias_" in name:
            gates = parameter.data.chunk(3 if getattr(module, "coupled", False) else 4)
            gates[0 if len(gates) == 3 else 1].fill_(value if "bias_ih" in name else 0.0)


def _weights_of(module: nn.Module) -> Iterable[tuple[str, Tensor]]:
    return module.named_weights() if isinstance(module, Cell) else module.named_parameters()
