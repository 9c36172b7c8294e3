"""From the word in `model.positions` to layers (S24): what is added to the embeddings, what lives in self-attention."""

from __future__ import annotations

from harken.nn.alibi import AlibiPositions
from harken.nn.attention_positions import AttentionPositions
from harken.nn.positions import LearnedPositions, SinusoidalPositions
from harken.nn.relative import RelativePositions
from harken.nn.rotary import RotaryPositions


def added_positions(kind: str, width: int, max_length: int) -> SinusoidalPositions | LearnedPositions | None:
    """What is added to the embeddings; None where nothing is."""
    if kind == "sinusoidal":
        return SinusoidalPositions(width)
    if kind == "learned":
        return LearnedPositions(width, max_length)
    return None


def attention_positions(kind: str, head_width: int, heads: int, max_distance: int) -> AttentionPositions:
    """What one self-attention layer knows of positions; relative ones are learned layer by layer."""
    if kind == "rotary":
        return RotaryPositions(head_width)
    if kind == "alibi":
        return AlibiPositions(heads)
    if kind == "relative":
        return RelativePositions(head_width, max_distance)
    return AttentionPositions()
