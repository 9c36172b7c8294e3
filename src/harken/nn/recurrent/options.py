"""The options of recurrent layers, validated: an error names what would be right.

>>> one_of("reset", "befor", ["after", "before"])
Traceback (most recent call last):
ValueError: reset is 'befor', but it can be 'after' or 'before'; did you mean 'before'?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any
from warnings import warn

import torch
from torch import Tensor

Bias = bool | str  # True or "two" as torch has it, "one" as the equations have it, False or "none"
CONNECTIONS = (None, "residual", "highway", "dense")


def one_of(what: str, value: object, choices: Sequence[object]) -> None:
    """Raise a ValueError for a value that is not among `choices`."""
    if value in choices:
        return
    names = [repr(choice) for choice in choices]
    near = get_close_matches(str(value), [choice for choice in choices if isinstance(choice, str)], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} is {value!r}, but it can be {', '.join(names[:-1])} or {names[-1]}{hint}")


def probability(what: str, value: float, can_be_one: bool = False) -> None:
    """Raise a ValueError for a value that is not in [0, 1), or in [0, 1]; True and False are none, as in torch."""
    if isinstance(value, bool) or not (0 <= value < 1 or (can_be_one and value == 1)):
        bounds = "0 to 1" if can_be_one else "0 or more, and less than 1"
        raise ValueError(f"{what} is {value}, but it is a probability: {bounds}")


def at_least(what: str, value: int, least: int) -> None:
    """Raise a ValueError for a size that is too small."""
    if value < least:
        raise ValueError(f"{what} is {value}, but it has to be at least {least}")


def non_default(options: dict[str, tuple[Any, Any]]) -> list[str]:
    """Format as "name=value" each option, given as (value, default), whose value is not the default."""
    return [f"{name}={value!r}" for name, (value, default) in options.items() if value != default]


@dataclass(frozen=True)
class StackOptions:
    """The options that RNN, LSTM and GRU have in common."""

    input_size: int
    hidden_size: int
    num_layers: int = 1
    bias: Bias = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False
    layer_norm: bool = False
    zoneout: float = 0.0
    recurrent_dropout: float = 0.0
    connections: str | None = None

    def __post_init__(self) -> None:
        for size in ("input_size", "hidden_size", "num_layers"):
            at_least(size, getattr(self, size), 1)
        for name in ("zoneout", "recurrent_dropout"):
            probability(name, getattr(self, name))
        probability("dropout", self.dropout, can_be_one=True)
        if self.dropout and self.num_layers == 1:
            warn("dropout is between layers, and num_layers is 1: nothing is dropped", stacklevel=4)
        one_of("bias", self.bias, (True, False, "two", "one", "none"))
        if not isinstance(self.batch_first, bool) or not isinstance(self.bidirectional, bool):
            raise ValueError("batch_first and bidirectional are True or False")
        one_of("connections", self.connections, CONNECTIONS)

    @property
    def directions(self) -> int:
        """2 where the sequence is read both ways."""
        return 2 if self.bidirectional else 1

    def extras(self) -> list[str]:
        """The options in use that torch.nn's layers do not have."""
        names = ("layer_norm", "zoneout", "recurrent_dropout", "connections")
        return [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name)]


def check_input(values: Tensor, input_size: int, weight: Tensor) -> None:
    """Raise a ValueError for inputs (T, B, I) or (T, I) of another width, without a step, or of another dtype."""
    if values.dim() not in (2, 3):
        raise ValueError(
            f"the input has {values.dim()} dimensions, but it has to be (time, batch, features), with batch_first=True "
            "(batch, time, features), or (time, features) for one sequence"
        )
    if values.shape[-1] != input_size:
        raise ValueError(f"the input has {values.shape[-1]} features, but the layer was made for {input_size}")
    check_dtype(values, weight)


def check_dtype(values: Tensor, weight: Tensor, what: str = "input") -> None:
    """Raise a ValueError for values of another dtype than the weights, unless autocast casts both."""
    if values.dtype == weight.dtype:
        return
    device = values.device.type
    if not values.is_floating_point() or device == "meta" or not torch.is_autocast_enabled(device):
        raise ValueError(
            f"the {what} is {values.dtype}, but the weights are {weight.dtype}: convert the {what} by "
            f"{what}.to({weight.dtype}), or the layer by layer.to(dtype)"
        )
