"""Pieces of tokenizers as they stand on an axis."""

from __future__ import annotations

from collections.abc import Sequence

SPACE, JOINED = "▁", "￭"  # marks of harken.data.tokenizers that many fonts lack


def piece_names(pieces: Sequence[str]) -> list[str]:
    """Pieces as they stand on an axis: a piece that continues a word begins with a hyphen.

    >>> piece_names(["▁low", "est", "▁", "!"]), piece_names(["l", "￭'￭", "homme", "￭."])
    (['low', '-est', 'space', '!'], ['l', "'", 'homme', '.'])
    """
    subwords = any(piece.startswith(SPACE) for piece in pieces)
    names = []
    for piece in pieces:
        name = piece.replace(JOINED, "").replace(SPACE, " ").strip()
        continues = subwords and not piece.startswith((SPACE, "<")) and any(map(str.isalnum, name))
        names.append(f"-{name}" if continues else name or ("space" if SPACE in piece else piece))
    return names
