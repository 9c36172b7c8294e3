"""The inputs of pictures: weights that are checked, and pieces of tokenizers as they stand on an axis."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError

TOLERANCE = 1e-3  # rounding in half precision may take a weight this far outside 0 to 1
UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")  # letters that are words
SPACE, JOINED = "▁", "￭"  # marks of harken.data.tokenizers that many fonts lack


def checked_weights(weights: npt.ArrayLike, shape: Sequence[int], axes: str) -> np.ndarray:
    """The weights as float64, cut to 0..1.

    Args:
        shape: what the words ask for.
        axes: what the axes are, for the message.

    Raises:
        UserError: another shape, NaN, or numbers that are no weights.
    """
    array = np.array(weights, dtype=np.float64)
    if array.shape != tuple(shape):
        given, expected = (" x ".join(map(str, sizes)) for sizes in (array.shape, shape))
        raise UserError(f"The attention weights are {given} but the words ask for {expected} ({axes}); pass one each.")
    if array.size and not np.isfinite(array).all():
        index = ", ".join(str(int(number)) for number in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"The attention weight at ({index}) is not a finite number; the model may have diverged.")
    if array.size and (array.min() < -TOLERANCE or array.max() > 1 + TOLERANCE):
        worst = array.min() if array.min() < -TOLERANCE else array.max()
        raise UserError(f"An attention weight is {worst:.3g}; weights lie between 0 and 1, so scale them first.")
    return array.clip(0.0, 1.0)


def piece_names(pieces: Sequence[str]) -> list[str]:
    """Pieces as they stand on an axis: a piece that continues a word begins with a hyphen.

    >>> piece_names(["▁low", "est", "▁", "!"]), piece_names(["l", "￭'￭", "homme", "￭."])
    (['low', '-est', 'space', '!'], ['l', "'", 'homme', '.'])
    >>> piece_names(["▁黒い", "猫", "ok"])
    ['黒い', '猫', '-ok']
    """
    subwords = any(piece.startswith(SPACE) for piece in pieces)
    names = []
    for piece in pieces:
        name = piece.replace(JOINED, "").replace(SPACE, " ").strip()
        continues = subwords and not piece.startswith((SPACE, "<")) and any(map(str.isalnum, name))
        continues = continues and not unicodedata.name(name[0], "").startswith(UNSPACED)
        names.append(f"-{name}" if continues else name or ("space" if SPACE in piece else piece))
    return names
