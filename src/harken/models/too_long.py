"""A sentence longer than the positions that were learned, said to the person who wrote it."""

from __future__ import annotations

from torch import nn

from harken.errors import UserError
from harken.nn.positions.absolute import LearnedPositions


def refuse_too_long(positions: nn.Module | None, length: int) -> None:
    """Say what to do before the layers refuse.

    Raises:
        UserError: there are positions for fewer tokens than `length`.
    """
    if isinstance(positions, LearnedPositions) and length > positions.embedding.num_embeddings:
        raise UserError(
            f"a sequence of {length} tokens is too long: positions were learned for "
            f"{positions.embedding.num_embeddings}; shorten the text, or train with a larger model.max_length"
        )
