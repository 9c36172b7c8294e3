"""One call of a recurrent layer as data, and the backends that run it.

Kernels do not import `harken.nn`: a layer describes its cells by a `CellKind` and their tensors by the names below. The
backends are listed in `harken.nn.recurrent.dispatch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harken.kernels.recurrent.packing import Layout

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
    """The equation of a cell, without its weights and sizes.

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

    cell: Any  # with `kind`, `tensors()`, `bound_weights()` and the weights as attributes
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
    """One call of a stack of layers.

    A backend is chosen for the whole stack, when `x` is (B, T, I), and then runs one layer after the other, or all of
    them at once: `directions` are those of the layers to run, and `x` is what the first of them reads, as packed rows
    (N, I), or (T, B, I) for a backend that takes padded sequences.
    """

    x: Tensor
    cell: Any  # the first of the stack: kind and sizes are the same for all
    bidirectional: bool
    lengths: Tensor | None  # (B,), from 0 to T
    kind: CellKind | None = None  # the equation of the cells; None where only their own steps know it
    training: bool = False
    trace: bool = False
    noisy: bool = False  # zoneout or recurrent dropout
    connections: str | None = None  # other than each layer reading the one below
    dropout: float = 0.0  # between layers
    directions: list[Direction] = field(default_factory=list)
    has_padding: bool = False  # `x` (T, B, I) still holds padding that must not reach a gradient
    made_layout: Layout | None = None

    @property
    def layout(self) -> Layout:
        """Which rows run at each step; made when it is first needed, as reading lengths can mean a wait for a GPU."""
        if self.made_layout is None:
            batch, time, _ = self.x.shape
            self.made_layout = Layout.of(self.lengths, batch, time, self.x.device)
        return self.made_layout

    @property
    def compute_dtype(self) -> torch.dtype:
        """Autocast's dtype where it is on, otherwise that of the weights."""
        device, own = self.x.device.type, self.cell.weight_hh.dtype
        if device == "meta" or not torch.is_autocast_enabled(device):  # autocast does not know the meta device
            return own
        return torch.get_autocast_dtype(device)

    @property
    def torch_name(self) -> str | None:
        """Torch's name for the cells, where it can run them: it has no noise inside a recurrence."""
        return None if self.noisy or self.kind is None else self.kind.torch_name


class Result(NamedTuple):
    """The results of the layers of a call, in the layout of its `x`."""

    output: Tensor  # (N, R x directions), or (T, B, R x directions)
    last: State  # after each row's last step: parts (directions, B, width)
    traces: list[Any] = []  # of each direction, where the call asks for them  # noqa: RUF012


@dataclass(frozen=True)
class Backend:
    """One implementation of recurrent layers.

    `supports(call)` says whether it can run the call and was measured to be faster than the backends after it;
    `run(call)` runs the layers of `call.directions`.
    """

    name: str
    supports: Callable[[Call], bool]
    run: Callable[[Call], Result]
    is_kernel: bool = True  # `HARKEN_KERNELS=off` leaves it out
    takes_padded: bool = False  # x is (T, B, I) with lengths; otherwise packed rows (N, I)
    takes_equal: bool = False  # x is (T, B, I) where no lengths are given
    masks_padding: bool = False  # it takes `call.has_padding`
    runs_stack: bool = False  # all layers are one call, where each reads the one below alone
