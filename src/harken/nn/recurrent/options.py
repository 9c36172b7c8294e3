"""The options of recurrent layers, validated: an error names what would be right.

>>> one_of("reset", "befor", ["after", "before"])
Traceback (most recent call last):
ValueError: reset is 'befor', but it can be 'after' or 'before'; did you mean 'before'?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from warnings import warn

from torch import Tensor

Bias = bool | str  # True or "two" as torch has it, "one" as the equations have it, False or "none"
CONNECTIONS = (None, "residual", "highway", "dense")


def one_of(what: str, found: object, choices: Sequence[object]) -> None:
    """Raise a ValueError for what is not among `choices`."""
    if found in choices:
        return
    words = [repr(choice) for choice in choices]
    near = get_close_matches(str(found), [choice for choice in choices if isinstance(choice, str)], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} is {found!r}, but it can be {', '.join(words[:-1])} or {words[-1]}{hint}")


def probability(what: str, found: float) -> None:
    """Raise a ValueError for what is not in [0, 1)."""
    if not 0 <= found < 1:
        raise ValueError(f"{what} is {found}, but it is a probability: 0 or more, and less than 1")


def at_least(what: str, found: int, least: int) -> None:
    """Raise a ValueError for a size that is too small."""
    if found < least:
        raise ValueError(f"{what} is {found}, but it has to be at least {least}")


@dataclass(frozen=True)
class StackOptions:
    """What RNN, LSTM and GRU have in common."""

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
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"dropout is {self.dropout}, but it is a probability: 0 to 1")
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


def check_input(values: Tensor, input_size: int) -> None:
    """Raise a ValueError for inputs (B, T, I) of another width or without a step."""
    if values.dim() != 3:
        raise ValueError(f"the input has {values.dim()} dimensions, not those of (batch, time, features)")
    if values.shape[-1] != input_size:
        raise ValueError(f"the input has {values.shape[-1]} features, but the layer was made for {input_size}")
    if values.shape[1] == 0:
        raise ValueError("the input has no step: a sequence needs at least one")
