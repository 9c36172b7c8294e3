"""One call of a recurrent layer as data, for the backends of `harken.kernels.recurrent.dispatch`.

Kernels do not import `harken.nn`: a layer describes its cells by a `CellKind` and their tensors by the names below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

State = tuple[Tensor, ...]  # h (B, R), and c (B, H) of an LSTM

# What the `tensors()` of a cell may have.
WEIGHTS = (
    "weight_ih",  # W
    "bias",  # b
    "weight_hh",  # U
    "weight_ch",  # peepholes of an LSTM
    "weight_hr",  # projection of an LSTM
    "inner_bias",  # of a GRU's candidate, inside the reset
    "norm_input",  # gains of W x
    "norm_hidden",  # gains of U h
    "norm_cell",  # gain and
    "norm_cell_shift",  # shift of c
)


@dataclass(frozen=True)
class CellKind:
    """What a cell computes, without its weights and sizes.

    >>> CellKind("lstm").torch_name, CellKind("lstm", layer_norm=True).torch_name
    ('LSTM', None)
    """

    name: str  # "rnn", "lstm" or "gru"; another for a cell that no backend knows
    layer_norm: bool = False
    nonlinearity: str = "tanh"  # rnn: or "relu", "sigmoid"
    peephole: str | None = None  # lstm: or "diagonal", "full"
    coupled: bool = False  # lstm
    reset: str = "after"  # gru: or "before"

    @property
    def torch_name(self) -> str | None:
        """Torch's (and cuDNN's) name for the cell; None where it has no such cell."""
        if self.layer_norm or self.peephole or self.coupled or self.reset == "before":
            return None
        if self.name == "rnn":
            return {"tanh": "RNN_TANH", "relu": "RNN_RELU"}.get(self.nonlinearity)
        return {"lstm": "LSTM", "gru": "GRU"}.get(self.name)


@dataclass(frozen=True)
class Direction:
    """One direction of one layer."""

    cell: Any  # with `kind`, `tensors()` and the weights as attributes
    state: State | None  # before the first step; None: zeros
    noise: Any  # with `keep` (recurrent dropout) and `stay` (zoneout): `harken.nn.recurrent.regularization.Noise`
    reverse: bool = False

    def start(self, batch: int, x: Tensor) -> State:
        """The state before the first step, parts (B, width)."""
        if self.state is not None:
            return self.state
        return tuple(x.new_zeros(batch, size) for size in self.cell.state_sizes)


@dataclass
class Call:
    """One call of a stack of layers; `directions` and what `x` holds are those of the layer that runs.

    `x` is (B, T, I) when a backend is chosen; a layer runs on packed rows (N, I), or (T, B, I) for a backend that takes
    padded sequences.
    """

    x: Tensor
    cell: Any  # the first of the stack: kind and sizes are the same for all
    bidirectional: bool
    lengths: Tensor | None
    make_layout: Callable[[], Any]  # `harken.nn.recurrent.packing.Layout`: reading lengths can mean a wait for a GPU
    reference: Callable[[Call], Any]  # runs a layer step by step, packed
    masked_reference: Callable[[Call], Any]  # runs a layer step by step, padded
    plain: bool = False  # all cells compute what their `kind` says (`Cell.is_plain`)
    training: bool = False
    trace: bool = False
    noisy: bool = False  # zoneout or recurrent dropout
    connections: bool = False  # other than each layer reading the one below
    dropout: float = 0.0  # between layers
    directions: list[Direction] = field(default_factory=list)
    padding: Tensor | None = None  # (T, B), True where `x` still holds padding that must not reach a gradient
    _layout: Any = None

    @property
    def layout(self) -> Any:
        """Which rows run at each step: `batch_sizes`, `batch`, `full`."""
        if self._layout is None:
            self._layout = self.make_layout()
        return self._layout

    @property
    def compute_dtype(self) -> torch.dtype:
        """Autocast's dtype where it is on, otherwise that of the weights."""
        device, own = self.x.device.type, self.cell.weight_hh.dtype
        if device == "meta" or not torch.is_autocast_enabled(device):  # autocast does not know the meta device
            return own
        return torch.get_autocast_dtype(device)

    @property
    def kind(self) -> CellKind | None:
        """What the cells compute; None where only their own steps know."""
        return self.cell.kind if self.plain else None

    @property
    def torch_name(self) -> str | None:
        """Torch's name for the cells, where it can run them: it has no noise inside a recurrence."""
        return None if self.noisy or self.kind is None else self.kind.torch_name


Result = tuple[Tensor, list[State], list[Any]]  # output, last state of each direction, traces of each direction
