"""The kinds of positions by name: those added to the input, and those inside self-attention.

>>> added_positions("rotary", 4, 512) is None, type(attention_positions("rotary", 4, 2, 16)).__name__
(True, 'RotaryPositions')
"""

from __future__ import annotations

from harken.nn.positions.absolute import LearnedPositions, SinusoidalPositions
from harken.nn.positions.alibi import AlibiPositions
from harken.nn.positions.base import AttentionPositions
from harken.nn.positions.relative import RelativePositions
from harken.nn.positions.rotary import RotaryPositions
from harken.nn.recurrent.options import one_of

POSITIONS = ("sinusoidal", "learned", "relative", "dependency", "rotary", "alibi", "none")


def added_positions(kind: str, width: int, max_length: int) -> SinusoidalPositions | LearnedPositions | None:
    """What is added to the input; None where nothing is."""
    one_of("positions", kind, POSITIONS)
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
    return AttentionPositions()
