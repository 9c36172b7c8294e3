"""One side of a network, an encoder or a decoder, by arithmetic: see `size.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Side:
    """Counts without vocabulary matrices, and the widths by which a side is joined to the rest."""

    parameters: int
    matrices: int  # entries of matrices that a token of this side meets
    activations: int  # numbers kept for the backward pass, for one token
    embedding: int  # E, of what it reads
    width: int  # of the memory that an encoder makes; of what a decoder hands to the output layer
    memory: int = 0  # decoders: W, of what they look into
    source_matrices: int = 0  # decoders: entries that a source token meets in them
    output_bias: bool = False  # decoders: whether the output layer above has one


def linear(inputs: int, outputs: int) -> int:
    """Parameters of a map with a bias.

    >>> linear(3, 5)
    20
    """
    return inputs * outputs + outputs
