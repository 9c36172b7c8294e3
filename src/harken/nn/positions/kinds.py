"""The kinds of positions by name: those added to the input, and those inside self-attention.

A kind of your own (`harken.register_positions`, or "module:Name") is a subclass of `AttentionPositions`, made with
`(head_width, heads)`; or any other module, made with `(width, max_length)`, whose `forward(length, start)` gives what
is added to the input, (length, D).

>>> added_positions("rotary", 4, 512) is None, type(attention_positions("rotary", 4, 2, 16)).__name__
(True, 'RotaryPositions')
"""

from __future__ import annotations

from torch import nn

from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.relative import RelativePositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.options import one_of
from harken.registry import POSITIONS


def added_positions(kind: str, width: int, max_length: int) -> nn.Module | None:
    """The positions that are added to the input; None where they act in attention."""
    if kind not in POSITIONS:
        one_of("positions", kind, POSITIONS.names())
    if kind not in POSITIONS.shipped:
        own = POSITIONS.find(kind)
        return None if issubclass(own, AttentionPositions) else own(width, max_length)
    if kind in ("sinusoidal", "dependency"):  # a tree gives heads and dependents, not the whole order
        return SinusoidalPositions(width)
    if kind == "learned":
        return LearnedPositions(width, max_length)
    return None


def attention_positions(kind: str, head_width: int, heads: int, max_distance: int) -> AttentionPositions:
    """The positions of one self-attention layer; relative ones are learned for each layer."""
    if kind == "rotary":
        return RotaryPositions(head_width)
    if kind == "alibi":
        return AlibiPositions(heads)
    if kind in ("relative", "dependency"):  # by tree where distances are given, else by order
        return RelativePositions(head_width, max_distance)
    if kind not in POSITIONS.shipped and issubclass(POSITIONS.find(kind), AttentionPositions):
        own: AttentionPositions = POSITIONS.find(kind)(head_width, heads)
        return own
    return AttentionPositions()
