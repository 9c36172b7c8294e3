"""What every picture asks of its input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harken.errors import UserError

TOLERANCE = 1e-3  # rounding in half precision may take a weight this far outside 0 to 1


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
        found, wanted = " x ".join(map(str, array.shape)), " x ".join(map(str, shape))
        raise UserError(f"The attention weights are {found} but the words ask for {wanted} ({axes}); pass one each.")
    if array.size and not np.isfinite(array).all():
        place = ", ".join(str(int(number)) for number in np.argwhere(~np.isfinite(array))[0])
        raise UserError(f"The attention weight at ({place}) is not a finite number; the model may have diverged.")
    if array.size and (array.min() < -TOLERANCE or array.max() > 1 + TOLERANCE):
        worst = array.min() if array.min() < -TOLERANCE else array.max()
        raise UserError(f"An attention weight is {worst:.3g}; weights lie between 0 and 1, so scale them first.")
    return array.clip(0.0, 1.0)
