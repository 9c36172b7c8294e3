"""One call of a recurrent layer as data: tensors and declared options.

Kernels do not import `harken.nn`: a layer describes its cells by a `CellKind` and their weights by the names below. The
backends are listed in `harken.nn.recurrent.unroll`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harken.kernels.backend import Backend
from harken.kernels.recurrent.packing import Layout

State = tuple[Tensor, ...]  # h (B, R), and c (B, H) of an LSTM

# The parameters of a cell in the order of torch's layers, and by which names kernels know all weights.
PARAMETERS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
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


def summed_bias(kind: CellKind, bias_ih: Tensor | None, bias_hh: Tensor | None) -> Tensor | None:
    """b (gates x H): torch's two biases act as their sum, but for the second of a GRU's candidate inside the reset."""
    if bias_ih is None or bias_hh is None:
        return bias_ih
    if _has_inner_bias(kind):
        gates = bias_hh[: len(bias_hh) // 3 * 2]
        bias_hh = torch.cat((gates, gates.new_zeros(len(bias_hh) // 3)))
    return bias_ih + bias_hh


def inner_bias(kind: CellKind, bias_hh: Tensor | None) -> Tensor | None:
    """The bias (H,) of a GRU's candidate that the reset gate acts on."""
    return bias_hh[len(bias_hh) // 3 * 2 :] if bias_hh is not None and _has_inner_bias(kind) else None


def _has_inner_bias(kind: CellKind) -> bool:
    return kind.name == "gru" and kind.reset == "after"


class Noise(NamedTuple):
    """The masks that one direction of one layer drew for a pass."""

    keep: Tensor | None  # (B, R): recurrent dropout
    stay: tuple[Tensor | float, ...]  # zoneout, for each part of the state: (T, B, H) where it stays, or a mean

    def mask(self, rows: int) -> Tensor | None:
        """Recurrent dropout's mask of the first rows."""
        return None if self.keep is None else self.keep[:rows]

    def sorted(self, sorted_indices: Tensor | None) -> Noise:
        """The rows in another order."""
        if sorted_indices is None:
            return self
        keep = None if self.keep is None else self.keep[sorted_indices]
        return Noise(keep, tuple(part if isinstance(part, float) else part[:, sorted_indices] for part in self.stay))


class Direction(NamedTuple):
    """One direction of one layer."""

    cell: int  # the number of its cell in the stack
    parameters: Mapping[str, Tensor | None]  # `PARAMETERS`, and those of `WEIGHTS` that are no sums
    state: State | None  # before the first step; None: zeros
    noise: Noise
    reverse: bool = False

    def weights(self, kind: CellKind) -> dict[str, Tensor | None]:
        """The weights by the names of `WEIGHTS`."""
        biases = self.parameters["bias_ih"], self.parameters["bias_hh"]
        return {**self.parameters, "bias": summed_bias(kind, *biases), "inner_bias": inner_bias(kind, biases[1])}


@dataclass
class Call:
    """One call of a stack of layers.

    A backend is chosen for the whole stack, when `x` is (B, T, I), and then runs one layer after the other, or all of
    them at once: `directions` are those of the layers to run, and `x` is what the first of them reads, as packed rows
    (N, I), or (T, B, I) for a backend that takes padded sequences.
    """

    x: Tensor
    weight_hh: Tensor  # U of the first cell; all have the same sizes
    state_sizes: tuple[int, ...]  # the width of each part of the state: R, and H of an LSTM
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

    def start(self, direction: Direction, batch: int, x: Tensor) -> State:
        """The state of a direction before the first step, parts (B, width)."""
        if direction.state is not None:
            return direction.state
        return tuple([x.new_zeros(batch, size) for size in self.state_sizes])

    @property
    def hidden_size(self) -> int:
        """H."""
        return self.state_sizes[-1]

    @property
    def is_projected(self) -> bool:
        """Whether h is narrower than c."""
        return self.state_sizes[0] < self.state_sizes[-1]

    @property
    def compute_dtype(self) -> torch.dtype:
        """Autocast's dtype where it is on, otherwise that of the weights."""
        device, own = self.x.device.type, self.weight_hh.dtype
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


@dataclass(eq=False)
class RecurrentBackend(Backend[Result]):
    """One implementation of recurrent layers: `run(call)` runs the layers of `call.directions`."""

    takes_padded: bool = False  # x is (T, B, I) with lengths; otherwise packed rows (N, I)
    takes_equal: bool = False  # x is (T, B, I) where no lengths are given
    masks_padding: bool = False  # it takes `call.has_padding`
    runs_stack: bool = False  # all layers are one call, where each reads the one below alone
